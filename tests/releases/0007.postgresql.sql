SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.audit_events_stay() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'what happened is not rewritten' USING ERRCODE = 'integrity_constraint_violation'; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.accuracy_daily (
    team_id character varying(36) NOT NULL,
    dimension character varying(210) NOT NULL,
    code character varying(80) NOT NULL,
    day date NOT NULL,
    device character varying(100) NOT NULL,
    model_family character varying(100) NOT NULL,
    training_method character varying(20) NOT NULL,
    stack character varying(40) NOT NULL,
    engine_version character varying(40) NOT NULL,
    label_value character varying(200) NOT NULL,
    n bigint NOT NULL,
    judged bigint NOT NULL,
    within bigint NOT NULL,
    losses bigint NOT NULL,
    loss_micro bigint NOT NULL,
    histogram bytea NOT NULL
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.api_keys (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    lookup character varying(16) NOT NULL,
    hash character varying(64) NOT NULL,
    scopes text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    replaces_id character varying(36)
);
CREATE TABLE public.audit_events (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    via character varying(20) NOT NULL,
    key_id character varying(36),
    action character varying(40) NOT NULL,
    subject character varying(100) NOT NULL
);
CREATE TABLE public.calibrations (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    number integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    window_days integer,
    half_life_runs double precision NOT NULL,
    evidence bigint NOT NULL,
    document text NOT NULL
);
CREATE TABLE public.idempotency_keys (
    team_id character varying(36) NOT NULL,
    path character varying(300) NOT NULL,
    key character varying(255) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    holder character varying(36) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    status integer,
    headers text,
    body bytea
);
CREATE TABLE public.ledger_entries (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    project_id character varying(36) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    stage character varying(20) NOT NULL,
    outcome character varying(20) NOT NULL,
    final boolean NOT NULL,
    exploration boolean,
    name character varying(200),
    option character varying(200),
    device character varying(200),
    device_hours double precision,
    cpu_hours double precision,
    human_hours double precision,
    tokens bigint,
    bytes bigint,
    effects text NOT NULL,
    quote_id character varying(36),
    corrects_id character varying(36),
    note text,
    CONSTRAINT ck_ledger_entries_outcome CHECK (((outcome)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying, 'preempted'::character varying, 'timeout'::character varying])::text[]))),
    CONSTRAINT ck_ledger_entries_stage CHECK (((stage)::text = ANY ((ARRAY['data_preparation'::character varying, 'generation'::character varying, 'feedback'::character varying, 'training'::character varying, 'validation'::character varying, 'rerun'::character varying, 'human_review'::character varying])::text[])))
);
CREATE TABLE public.measurements (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    quote_id character varying(36) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    source character varying(60) NOT NULL,
    job_id character varying(200),
    attempt integer NOT NULL,
    outcome character varying(20) NOT NULL,
    covers character varying(100),
    steps_completed bigint,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    device_count bigint,
    code character varying(80) NOT NULL,
    value double precision NOT NULL,
    method character varying(200) NOT NULL,
    scope character varying(10) NOT NULL,
    basis character varying(20),
    excludes character varying(60) NOT NULL,
    flags text NOT NULL,
    repeats integer,
    spread double precision,
    corrects_id character varying(36),
    estimated double precision,
    low double precision,
    high double precision,
    uncalibrated double precision,
    interval_coverage double precision,
    observed_value double precision,
    log_ratio double precision,
    censored boolean NOT NULL,
    drift double precision,
    replaces_id character varying(36),
    device character varying(100),
    model character varying(200),
    model_family character varying(100),
    training_method character varying(20) NOT NULL,
    stack character varying(40),
    engine_version character varying(40) NOT NULL,
    labels text NOT NULL,
    CONSTRAINT ck_measurements_outcome CHECK (((outcome)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying, 'preempted'::character varying, 'timeout'::character varying])::text[])))
);
CREATE TABLE public.projects (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name character varying(200) NOT NULL,
    description text,
    rates text NOT NULL
);
CREATE TABLE public.quote_events (
    quote_id character varying(36) NOT NULL,
    kind character varying(20) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_quote_events_kind CHECK (((kind)::text = ANY ((ARRAY['superseded'::character varying, 'measured'::character varying])::text[])))
);
CREATE TABLE public.quote_labels (
    quote_id character varying(36) NOT NULL,
    key character varying(200) NOT NULL,
    value character varying(200) NOT NULL
);
CREATE TABLE public.quotes (
    id character varying(36) NOT NULL,
    team_id character varying(36) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    supersedes_id character varying(36),
    engine_version character varying(40) NOT NULL,
    calibration_version character varying(100),
    name character varying(200),
    project character varying(200),
    model character varying(200),
    model_family character varying(100),
    device character varying(100),
    device_count bigint,
    method character varying(20) NOT NULL,
    stack character varying(40),
    external_system character varying(200),
    external_id character varying(200),
    pilot text,
    step_basis character varying(20),
    training_seconds double precision,
    wall_clock_seconds double precision,
    received bytea NOT NULL,
    document bytea NOT NULL
);
ALTER TABLE ONLY public.quotes ALTER COLUMN received SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.quotes ALTER COLUMN document SET STORAGE EXTERNAL;
CREATE TABLE public.teams (
    id character varying(36) NOT NULL,
    name character varying(100) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    shares_learning boolean DEFAULT false NOT NULL
);
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', '', 'device_hours.run', '2026-12-01', '', '', '', '', '', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', '*', 'device_hours.run', '2026-12-01', 'h100-sxm-80gb', 'llama', 'full', 'hf_transformers', '1.0.0', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', '*label.team', 'device_hours.run', '2026-12-01', 'h100-sxm-80gb', 'llama', 'full', 'hf_transformers', '1.0.0', 'search', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', 'device', 'device_hours.run', '2026-12-01', 'h100-sxm-80gb', '', '', '', '', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', 'engine_version', 'device_hours.run', '2026-12-01', '', '', '', '', '1.0.0', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', 'label.team', 'device_hours.run', '2026-12-01', '', '', '', '', '', 'search', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', 'model_family', 'device_hours.run', '2026-12-01', '', 'llama', '', '', '', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', 'stack', 'device_hours.run', '2026-12-01', '', '', '', 'hf_transformers', '', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.accuracy_daily VALUES ('00000000-0000-7000-8000-000000000000', 'training_method', 'device_hours.run', '2026-12-01', '', '', 'full', '', '', '', 1, 1, 0, 1, 11675, '\x40010100');
INSERT INTO public.alembic_version VALUES ('0007');
INSERT INTO public.audit_events VALUES ('01a2300d-2449-7cf0-8b00-377f9ac4e7ef', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:21:37.350579+00', 'open', NULL, 'quote.created', '01a2300d-2446-7624-b2b7-cc2075bd77e5');
INSERT INTO public.audit_events VALUES ('01a2300d-2457-7df9-8ef4-5eb5d41e95a1', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:21:37.366952+00', 'open', NULL, 'quote.revised', '01a2300d-2456-7c29-8891-3e83f3456fd4');
INSERT INTO public.audit_events VALUES ('01a2300d-246c-767f-9c40-f26c5e7be24b', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:21:37.382627+00', 'open', NULL, 'actuals.recorded', '01a2300d-2446-7624-b2b7-cc2075bd77e5');
INSERT INTO public.idempotency_keys VALUES ('00000000-0000-7000-8000-000000000000', '/v1/quotes', 'k', 'c879a0f7ce08d5f510f551fdd51d21e8d5189c69d7f958b99a7536af78e21f4a', '01a2300d-243f-728f-b84c-e2a67356a830', '2026-12-01 05:21:37.34361+00', 201, '{"Location": "/v1/quotes/01a2300d-2446-7624-b2b7-cc2075bd77e5"}', '\x28b52ffd6501128aed6f00ea8c7c1529006d46e98e1c8edf6ffd0dbbb3604a18f77d4208d1311e308e1b6437d94df6836702242cfdffff4309650134013001fe89bee596fa6d9dcc0a64e69eaff9a8d6d876cb59b987d78a9fda7dc6859898eb99d8e7ea5bdc96bc8ab9a6db5a77ddeac7f9c7e9b85fa9a6dfd7ee6f8dc85b6bfcdfb78bce897858b686dc99c877dbd859ced8b6aeadbef8fa65dc7c88168908e9d79c6dffbcd9b0ab1347a228bf7da7686786777ec86feefbfddccb998bab40c9158fd1d23cb2e04824120aa424c6a3919840cb1428b2e0400f14b6ab0ceac9870e7c8b0506d38504dbc33f474d6212a4013d50a00910af265e22414052c3441405a4408c063a200724a23048811ca9612460d003055a489085922c90d43848e830017224a9410f1488515242a2a0036a96a4611a0c932018142049629002350a298207a4011d9082a571121c719588c491284a63c124466220a921c2a0035a52c3032910136992e6801ef85edbac4ec5a162cd8133041e82d1102950932c18a9491244011dd0a66e46c2b6a18202a2133001a1c88d60554430cc129333a4408c067a109b75fabaffebdfbbae75dbaa8dcb66a89dc5bdbfc856eb7565fdca33e43c53cbc64df6ca755ff67537beb4e2443d3b84c4c9f507f25870bc43489c5b7798b42069ceb9372cd3462e3b0e0e931824ccc97e4cb3dc744b2e63d546366cd4772c66edb74577ebdeab65573c4f7fc47cf7bbaebcbddf3dc67bb6ecdacd060f652d731f3b6b39d3fb982531ce21394c6201051038e0e821247daf3f0b92d4e0e044161cc7c1491cc6c202249ecd94eff0d9cf8bb5f934cdf9147bbff65e11d7d8f8cc7e9713aff9b3f2cdfc2e5b51f3abd9efcdfcf5bb4df3ae380def131995f7bd300fdffdd4d6deac5ed9f191cfb118136f131bb17ae1bee3ec6b6f7c762e474448ec6bcec8c6ebca5cefee8b7fba5ddc8790bc1131fdffffdb11ebf0cf17bc572006050d063bfcbc4d7664cb4ec4b62eed6cbbfcb50fc751ac3d7a1c1c06f2385d65ecf2dc5d5664f35356b66b2b734c3454c73a8cc480240ccc512c48524362d050d04138c5f7dd6899daffffb5ebacea6dc9f7f8e76c69bd9d8be8dde6c6c8abdf878f9b8ead8be7a79c8d6c687712e89c97017c3270a333abbab7b9a24416d80e5fedfdcf2e1b17895912e338384c59595964c1519f69efe9956c77ea0c12e624670d21f976dde1dbb96a2227d7333eee9d32d6f52e2e9b66eba6d75ada597ea79a57bbdf6d04f29df9bb8bb8f5c97df776888f985a7e8b9bdb8676c659afa69677877bf9af798578c8cf66d8d6a9995c9868eee8da995b96dbe0a1a0dd71b086fec88faf8857acf69f7abb8eb85e7bdd9d5b9f6aaeba6efcdb65dd7ffe6edbde8e5cbe8fb8e6f98ef78dc5af7bdbdcaaff8b7c659ac7f8fc6cc88e56678de98bb98d1913284a6451a0e6a1341ad0010286a6d1e0348dc35892e33c9aa3606930348fe53089419294939a44398c25f258386941d2300dc7498e02a128c959781c00ec9746e23889a1490a189184456268164c63b144208ba591389866893c140e931c8de668e53bfbe1ccf11c57f90eeabbadaf7c6aa9dfd98fefefcd968941c22cd479cf2e9b6ded1488691a0af8f079ef8dd91022413a1dbfad53b138f9ff3c0ffbb60f6f6b5b0dbbdcef96eb59f1f19db31bf7bbcdca9a64b1282eb33f029c06ce8139666cb8faeeaabeed6da6ba7886f567e677b765ae6ecd56999a04b2faaf6cefdf5db6a97899ecda9ac56df6fe8fe7fdbb57f6db873b028e99dd6f6fde299a6fd2248c458304829646e258e0afedada599ef1a1b5ff6a31d42cae4e4fa939e9a666faf6a6b6e8787a9b6dfaa999cfc0c47199040010318d0c059520306120920b0a4060ca0035296071341254521813c124c62128504d330a94107c424a5b170142c0d2531028306fc965157b767752b758b1aeb1d747276f4d5df0571db8283dce855ea0415cc65d88ea878934295c6b4615432518567f2303234aa6065be47a6c7edea84fae93275ee6dfe6d70c08550654cfeb0787bbf063dd719d4780a9c6b928069bf4b50e69043c634cf369dacd89f7c2b52030e8907685b1822fd71de0fa066b29a7d9a390ea8a0889721185fb6c53b616936a9aeea7a2ca26f799b6c70bfe55a64693d080a971ac8c28e0e6cebc5c5bf592d96a16099990959e101805d9ad89bc8b48a3cc7c7d2e07294bc1dcc04a5155dc6e1205f0dd6a6fb21936200ce5f0f13e7c4fe5377fc1215d22277fedea4870488ecbcf534f94552c6817a0bcadf08e072ddf7a30d137924455abd63e8bd8ccace3bb3dddcba7907d40b81a14af1a98114453ae9a1e1586cefb2d44cfc7a4766790fd1600e2bedbbf2715575f2119778c610f90cc543e197e810bf5ecd4b55c148805b1b7e6dbd68c33b42c94c0c8a2a2a3cbb99e61a872018a0fc4a61938e1da2cefc17fd809886eb7424f50b2e06eb8116f560d41e8c400103f175326bd12345066ca1939f288e16bffecced46fee0d71aec727daa0a9100778b667afaaf3bc9325196ef8baf3c59b2135459abd08c617fa96fad5a75537b1399a7ce0df167bb8331c730905a27e42f0d4f3f6c7598758f56e3dc85de3449b9cb02d15a953f45e9468275089f5e725f646040e06cbf55afe6af4c8f330cafbb61da5d9f8313ecb5efc43d1963381cbe4c71d2ab8cd869a25188c8b3f6a46aeb874043734fa14aa0450e3deea064ea4c9dc8177a5774a890824901c8d3ac45442e7c44714fdd274cee62fa908392fa2b5aa0bc821cb0c1921d0eb9c570461d50e6d5f10c381f0cf9bdbbc06a5fc8b31cb332b85e4871376b9c404a65220cb9ec74df46e7560a843dbc8a952366d74239215b177ab09c235e0f6e01ab6b9cdfc6ad6895b4ceeca30429a10e3c9dc76fe041f1b48123ad3c3da23c96186c64303902c7530d238bc7521839b79e7814704e30274db05386ed34f5743f5612faa81df82e4ea2d5600e5f856c64ad77415965d3392683ea266f93cbcbb28e7ffb585d5b6ce999742c289ea3e88569ec6a38c79232e24eb92f8e654238d704095979f35214508ea50503c412643b96ad52f182024789b53847c180740275a46dfc40f81fd4a8ff16881b3dd0fac0c121ac4ee5ee0d8d1e3c35e983feeb9f9d6c08cc4b993ec517cc1209b8a0310485489d67ecf94f3fc9b3ec701c69f967233ca45de3502535a374d04aea88430db5a350dfe443eb10e8d6cd4d9a8434d544720dc40b63ded1478ca78d2a82815476f68a33eaeee15291454a08d257edcf4635d7d8e71d415edce6e4fb3affcd8ed8ab34b7c95c11c4846ce47f84201c3c50093786350adc0cd94985c17af26f3b847833f98fc21d6c84809c259f31d06c0f935204fff3a20701a1fc0fd3fc585cdd91d43196e624effd4a19e131bf049df670479e6d3c2f1596a2bd9b5ada338c7ef7961133b747594b722ca41b2b45eac45a986af9d5de32bd13ae169436ba3ae08e851224565797d705b690717281bbc5a03560f5506d24c44a04c93871440b9bb7f595059b005704a11553864f69364208848f5d26547ea76cde61e1071765166d0f6372dc51ac000a1076e04c0159920431b66d1952bd179033e7805b57aa33a3465394429a62b5d27ed0a2e8e73a4c3fc765e42097b833f300b52956379fddc1e7a07bd4e3aefe233208d19dc562a9ad0ec02ff19322fc2e1b68b2e5556ee8da2cb859636525fed008f612946a57a7c5db7a8c8f8aa65c887ee1fdfcad7f10b1e3701e8a3f28f5c3df07910481409a561086d2f2fb360e734113aa13ead9de3d7e4078f44b1222839d229e543cd9b589de9298821a5676b4f652d3ba33f5a612c01c3c56363fe0ea37366e573aca433341db779dfbee91bd9417716e73e777f93e8b8361d1f77109e9f2a9c1523c0a7b6660a7c0d306ff2e382e5fcef4bbccd463699bff0f1064a6e81c0f8dac642c91fd5cc47d75f63005a0a2ada85ec9ab7ba5b03ad74122e0a43f59c4868fe5e2134c9af94bc467cd447f78bc6fea27db387caac1cd32a4fddf831d667d63b8d398d11e224a50b15545b1251f5f38c8f0afa2a1cbb0965b561af3542fcf81f2b6d1440b8b9dbc89e8d9b2a98fc72b4f21f9db8b13748e9010fbb698c1c835de5404728981b1e5825d789ec8f99832fa81f4ea156b6f6e3a9b5e2a361542950796d251ea3a70074ba0a740029508fb6d9ec26758755419c56ce04e11a7be19c78f2991ebce8b9d92059e50042a784a738e2709d93948c7a85352337926859c3ee611167d34a054c1220236e43c151dff2ba628534afec62b3099675cf1bd2b8622cc11a8803201cb05c84978476e83b3bb8e9202d022932baadea1164376dd82aef47159c16cad9f3e7a9de33c0b8b0befb783cfb813c245b9fa6989c08feb5114a274790c174555ad1343ef7d18b932addc5d8c42bc7b078d8fd9ddca78f9886c05ed01fa64e61da50fc260592e3caf1cc10b1ca129eb3714057c560a562ec3e1e76f1493c3502616b2894562a6a1bda7395a6236dadefc62fb7d2264ed7b57ae1460f5945b61db421b54a6214a39f66c1209e630f6af2b49cd90a2411b25558e60197ccdeaf0f8debf43427f5277501f5f692631e39351e3fb464f71a9f944a125df7becbe4494a202b35984fe7f85d7f35dc49a5185423f4ad4d5d2572ef12d43eb5ebe1e213a4df3f3a2d61d167bd7ca20e470971672d1446b066d90ce1375f58fc05ce45b746fe136249b6d98c5b06867212afa11bde2d646cf0bae70a9de7294ffe7a6497e941d1581274efe251ccb9b5a0601163ff0cd913fc76677063f4afe0e27231121791fbf7670fc89ff9faa385c9e1e6dfdd732082f3f96228ddb034104439ad4154c413449f5aacc5d83c4af78635ad815398952c43a2f8b135d7dd2153e4b75283a5695da57340495c7f40b9652a20e2e5fba559b0e59e40c15ade35df19fefdf8eb3cc98c4d70e321d0b84cda50cd4f37043b822f9782c337cf4c761eb03947b9b782ba3c91efac766af7fc3f903957b0319');
INSERT INTO public.measurements VALUES ('01a2300d-246a-752a-9b90-8867f0acfae8', '00000000-0000-7000-8000-000000000000', '01a2300d-2446-7624-b2b7-cc2075bd77e5', '2026-12-01 05:21:37.382627+00', '2026-12-01 05:21:37.382627+00', 'test', NULL, 1, 'completed', 'training', NULL, NULL, NULL, NULL, 'device_hours.run', 500000, 'scheduler accounting', '', 'allocated', '', '', NULL, NULL, NULL, 511887.8043793035, 510305.8354734062, 525571.2641152923, 511887.8043793035, 0.8, 500000, -0.02349737053270264, false, NULL, NULL, 'h100-sxm-80gb', 'llama-3.1-8b', 'llama', 'full', 'hf_transformers', '1.0.0', '{"team": "search"}');
INSERT INTO public.quote_events VALUES ('01a2300d-2446-7624-b2b7-cc2075bd77e5', 'superseded', '2026-12-01 05:21:37.366952+00');
INSERT INTO public.quote_events VALUES ('01a2300d-2446-7624-b2b7-cc2075bd77e5', 'measured', '2026-12-01 05:21:37.382627+00');
INSERT INTO public.quote_labels VALUES ('01a2300d-2446-7624-b2b7-cc2075bd77e5', 'team', 'search');
INSERT INTO public.quote_labels VALUES ('01a2300d-2456-7c29-8891-3e83f3456fd4', 'team', 'search');
INSERT INTO public.quotes VALUES ('01a2300d-2446-7624-b2b7-cc2075bd77e5', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:21:37.350579+00', NULL, '1.0.0', NULL, 'llama-3.1-8b pretraining', 'search-assistant', 'llama-3.1-8b', 'llama', 'h100-sxm-80gb', 1024, 'full', 'hf_transformers', 'slurm', 'cluster-a/123456', NULL, 'given', 1783365.372953305, 1799605.5622709887, '\x28b52ffd6501ff00550700540a6c6c616d612d332e312d386220696e67222c2270726f6a656374223a227365617263682d617373697374616e74222c226c6162656c73223a7b227465616d227d2c2265787465726e616c5f726566223a7b2273797374656d223a22736c75726d222c226964223a22636c75737465722d612f313233343536227d223a7b2270726573657422313530383139323136626668313032347d2c223a7b226d6675223a302e347d7d16fc8400250bcc1149f28a6b9910c1e1bf164c7691b491056a63abc41be1aed1732cdcc38f9aaec041da2436d74b180725914f3cd6d330fae3fcea93425c02792b19055f91e1fc', '\x28b52ffd65016289f56c008a8534142a106b466903061763b67ffc8f1d9832258cfb088077d789f7b6a46d777777f72664f001dd400000003808470120012601aaa89939ad0b73916e21245e333beeeeee653354d6c50eab4e240c0a180c2febab3c65d3df9ed97e11eeedeb3acf7dc689f887bddf534d243ff3355e1b7e6d5fa9872ecb6ad1fa70b7aec8ecec92ef6c8b9113e9fe34d12e8fb988aa76914baf4b8f2d1b1d1e7b6b99fb6ba689f2dabd9569ac6756869e37dd3bd3aa5cdb43acb64fc6454e6b6c745d2d4b146708a9f3accf2e5ebd2d5aa5a12c4be756a1bd7eabe232ed33676feba6dea56522498c566abf7364a181402012c992160f062202444f24918546f220f14c64403eade4a0a55860382e2478967571d224264118240f12490489269e15424980a486892c0a492259309243d28044162649248dd4301030c98344b290208a45714052d3909243044943494df22091304b4aa02cc921691c4ac3301846496050802889491249a3901e784018248744818371127042a14b501acab23c0856bd86b4312b5717b13b4d0b1dafd45a5b6fca76545f3b4ebb5cbb3c54d898ddc9bd998ca87211d7527fc33da49badb8c56f322a36babae9d5f1b796a78c2e99533999af75477a86f542487a8afa401e0b6c5508492f511d262d509a73aa6fe8b8a6e8a7e130a981c29cdbb6fb2f8f7f8aae886b7a5bc36643aab8fd34e6ef66a154462b3e6eb36be6aa4557599d596ad5fa5b94790e1e4bfe2edbf650ea1d6f318eb43807e53088051440e080838590b019f559a024060d27b2d0380d0771160e1500d1faa356592b1723c5d5c23b6ba16d36ca6a34cbebb5feced4b35aed43d73f57dda2e1355ae5ea9f1b7bf7785548ef567da6869acdc8aeac990b9fef1f352a5b9b161b523bab3c5b33b40edd2abdade5b55656c466084939cf6a7a4dc68ca280601a2635c92161d2c258380a1c8c252d1e8d8386f2e069380ce45198a8b6882f33154dcf858afadaa3b39ddd900d9d455a401406e624162889416ac0589283709056efdaef70bbbb51262b22ef4fabad8bf5f7cdbd34e3ddf3d534b1b7ac2d8f6d31adb8506f4d6faf8330d6ab0ba08f41d758159179cfcb1259d09735beb9eb756b8ac438d2e2341c061d1d3db2d0407df7e66374fa2ae4060a73949347489c8baaac5f8c78a6a7a8d5dab20ad5506da6a51e6f318f51fe5ebfdec3335ae6aa8c407aef3a33cd12f5e956f5cbaccd0e11575a5eeeed753dd478fc5595655d375e21b3326dfd6dbf87778aececccc6b877897ee9e0b1d8eb34e48ddbb4add1ac90e2bb0f2b93cd9251d6ee5ea23e3c23265f3b177db78b9b9fcbcba688b3cdf27ccd01112c4bc491489ac7c260901c1c6068180e4ec3380b476a9c47731438180ccdc37198d44049cb498db29c8523f258386981d2308cc6514e22615994b3f03800bc1d0ca571124393142c22091489a151300c8523025138184a83691c9187c2615283d11c44d7ac7ca8b3155ba2d6013973b1510b7fd87bdbd6dcbcfa4b0d144681ac59af5b7dbe1209d3301468596b565ff5494282ecb1f57e0f0de96977f1956de59655a25cbc2d62ae4a45ad686dcd7abb96bdfba3378a428114fd7d04380d9c03737ebd25363322e7f2fe886975435d3f5755a233f2578f2e350a24b11bf5cdbd8b9e875677cab87848f76feeb6e2edcc425774eea18a80f3bf3a37af0aed9c0e1448e260280d85753e2b7f3f675eaf75dbf64248777a8afa1c1fdedf6fc4e7f9656587cf5ec43b3ded4503199040010318d0c07124070c201240c0911c30901c92c5f1601e40695150200f0493028302fce65057b767752b1d8b1aeb1d747276f4a9df0571c58283d1e855ea5414cc65d80ea378939294c6b4355432258567f23032b4a46065be47a6c7edd484fae93275ee6dfe6d70c08550b54bfeb0787bbf063dd719d4780a9c6b928069ff4850e69083c334cf369dacd89f7c2b52030e8907685b1822fd71de0fa03ab29a7d9a390ea8a0889721185fb6c53b616936a9aeea7a16a26fb9986c70bfe52e6469e5070a811ac8c28e0e6cebc5c5bf592d96a16099990959e101205c9ad899c8b47f3c07c5d2e07294bc1dcc04a5155dc6e1205f0dd6a63b1f936200ce5f0f13e7c4fe5377fc1215122077fedea4870488ecbcf534f91952c6817a0bcadf08e072ddf7a30d13b921455abd63e8bd8ccace3bb3dddcba7907d40b29a14af1a98114453ae9a1e1586cefb2d44cfc7a47667904d1600e2b3dbbf2715575320f9778c610f90cc5438997e850bc5ecd4b55c148805b9b786dbd68c33b42c94c0c8a2a2a3cbb99e61a872018a0f14a61938e1da2cefc17fd809886eb7424c90b2e06eb8116f5e0b83fb8e99bdbff99338b08234537b600483ff11aad78a901ed463b11af03ec725554153c00a75d33a1fe2f6092656496c3cb589e8fb4a6bc8015e38c097dc96ced57075e7bff9e47e60dc167bb8d316518e8ab21e42f084f1f6c75ccbaef6a72ee626f9a8edced02bb1a953f41e946b275081fb775a0d4662a199b37666043c3eb6071ea737a65d276d53b706f066397c38e5e9cf79471669b688911c9d59954959a23d068eefd530934c3418fe3a79b3aa8637886de951b2aa40052007e9a6f1186031f51dca8fbe4c9dd997ee157527b450b945788033658b1c30ba718cea8a348bb3a2e03ce07ebfd771728ed5b3895635326d70bc9ef661727905c990817be9d963be9dc4881f08657817284d9b5102704ea4f0fd6e6c8d4c7cd5e738df3fb712b5225adf37d942125d49927f1f8213c28386d40482ba54794bc72061b014c8ec4f154436491571fc6e4d6931d85960b36a40bb6c7b69da698eebcb2843e6a035fc0896835ce21a9928d54b52fa8aa6c3ab7c9a03ae56d4279f954f26ff3aa6b8b2d3d937805c57314bd30775d0d87575246dc29f705af4c58e69a20212b6f488a020aafb4608058826cc75a552a5e506023b116e72818904ea08eb48d1f08ffd319f5df02717707da1f38f80b522cb9b32645844f8df744fbe4872710f6fc52964ff105b394012e685c402152e7197bfed34ff22c3b1c475afed9080f69d7385449cd2812b4923ae25043ed28d437f9d03a04ba75139226214d35115703f1c298f7ee11e369a38a6020959dbde281ba7bb8546491b280f455fbb351cd35f679479017b739f9bece7fb323f6d2cc6d32570431211bf91f2108070f54c28d618d023743762661b09efcdb0e21de4cfea370071b212067c9670c34dbc34c14c17fb7e8414028ffc3343f16577724c58ba539c97bb4524678cc2f41a73ddc39671ba34b85a568efa696f60ca3dfbd65c4cced51aa921c0be9c64a913a5115a65a52b5b74cef845305a58dae0eb863a10489d5bfe575c12a649c5ce06e31680d583d541b09b11241324e1cd1c2e66d7d4fc126c0154168c594e1533a8c1002e163970995df299b7758f8c1459945dbc3981c77142b8002841d3853409624418ced558654efade3cc39e0d68aeacca8d114a5909b58adb41fb428fab90ed3b9711989c725eecc3c406d8ad5cd6777f039e81ef5b8abff300c427467b1586aab03f04bfca408bfcb069a6c79951bba360b6ed65859893f34829104a5dad569f1b61ee3a3a229bfa15f183e7feb1f44ec389c87e20f4afdf0f7412441c88fa61584a1b4fcbe8dc35cd084ea847ab6778fc70f1efd92849c60a77227154f766da2b724a6a086951dadbdd4b4ee4cbda90430078f95cd0fb8fa8d77db958e72cb4cd0365be7be7b642fe5459cdbdc395bbecfe26058f4255cc2b47ceaaa148fc29e19d829f0b4c1670b8ecb97339d2d33f54dda66fa030441293ac738232bb949643fbf705f9d3d4c01a8682baa4cf2ea3229acce75300738394f1601e163b9f8848d66fe07f15928d16f1def6ffac9360e9f6a70b30c69fff7608759df18e33466b4878812d466555156c9c717f831fceb65e83254e59695c63cd5cb47a0bc1534d19662276f22bab36ceae3f1ca5348fef6e2049dc322c4be2d663072613715815c62606cb96017462772bea08c7e0abd7a65d99b43cea66b8a4d8550b981a56994ba0ec6c1128828904025c27e1ba2f019561d5546311bf850c4a96f46ec634ae4baf3e2a164812714810a88d29c8b4942760ed2316a8fd44cee4821f78e79d4441f0d2855b088800d394f45c79f8929ca9492bf91094ce619577c8f89a10873042aa04cc0c2007212de91dbe0ecaea3a400b4c88489aa77a8c5905db7a02b7d5c4b305be0a78f5ee738cfc2e2c2f0ed8032ee6e70f1ac7e5a22f0e3fa0e85285d1ec3ed5055ebc410791f46ae4c2b7717a3103fde41336376b7325e33225b417b803399f941e9833058960bcfab41f08241684af50d45019f958295cb65f8f905c5e4d89389856c6291986968ef698396988db637bfd87e730859fbde7f2b05583de556d856cf06696988528e3d9b44823981fdeb345273a168d04649d52058565eb33adcbcf7ef85d09f5418d49b579a49ccf86454f3bed1485c6a8e50689df71ebb2f118fa8c06116a1ffafe0f57c17b13a54a1d0841275b5f4954b66cbd0ba97af47884ed3fc0ca87587c5c8b5320839c6a5855c341198411ba443445da5233017f90bddfbb60dc9666b653116da59888a7344afb8b579f382155caab71ce5ffb969d21c658742e089937ffe602143cba0c032477dc3638ab1d99d618e9267c3c93244482ec7af1d1c7fe2ffa7aa0897a7475bd3b5acc0cb8fa548e3e04010c1902675055310f551bd2a73ab20f12bde980b764522a214b1a2cb2242579f7485cf921a8a3655a5f6158d3be5319d81a5945083cb1769d54e431639eb44eb7857fce7fbb7e3213326f1b5834c170261731303f526dc10ae483e1e0b0a1ffd71d8faa8c4fdd6e4593e466df8960d');
INSERT INTO public.quotes VALUES ('01a2300d-2456-7c29-8891-3e83f3456fd4', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:21:37.366952+00', '01a2300d-2446-7624-b2b7-cc2075bd77e5', '1.0.0', NULL, 'llama-3.1-8b pretraining', 'search-assistant', 'llama-3.1-8b', 'llama', 'h100-sxm-80gb', 1024, 'full', 'hf_transformers', 'slurm', 'cluster-a/123456', NULL, 'given', 1783365.372953305, 1798735.387241347, '\x28b52ffd6501ff002d0700140a6c6c616d612d332e312d386220696e67222c2270726f6a656374223a227365617263682d617373697374616e74222c226c6162656c73223a7b227465616d227d2c2265787465726e616c5f726566223a7b2273797374656d223a22736c75726d222c226964223a22636c75737465722d612f313233343536227d223a7b22707265736574223135303136626668313032347d2c223a7b226d6675223a302e347d7d16fc8400250bcc1149f28a6b9910c1e1bf164c7691b491056a0325de08bb464f5870037ed4ba0287d293d88c5fc238c8887c68b09e86d11fe7579f14e212c85bc92840d68094', '\x28b52ffd65011f898d6900fa80901329004d86d3018e5c132d7abe51f91d03f447fd4bef580c1e1dc70db29bec26fbd1510834feffffff50023b0119011e016bd8d5880689d7fb2cd34bdd7df14fb78bf58af13e91341296861d7eda9d7fb26527ea277a572beef359a67e1b7aedf11f1af3a67b21aeaeb5dfa777ab71375ff9f75d3373f2b32e97b3616edb5ff365a939f2e6fa31f67a9929ab1fffdd2dbe569fe6f7699e627bd666fbf77dffb23b72976fea7522df6d63673963dbeefb63aa9e67ed5f1a261a24d54e7dedc46ac5a1308cdf26a2a29d19def921bfb9eff7732f672e6e2249ae788c96e611860381402412262d1e0b628196259208c39134246c571beac9971cf8148c862923c15ef224274114928644b220e1d5c443280790f43811062149248b2539240e4884719244e2488f13819334241246822818a581a487212587058943494fd290481c26255098e4903c8df2388be328070d0488929c24913c08e981074421392409cd8212f8c1551e280e85611a02ecbd9dabe56e886b9eef78df58fcba97dbdcaaff8b7c659a8ccfcf86ec6875d698be98db989b75fabaffebdfbbae75dbaa8dcb66a89dc5bdbf80280d3b3e44556e2cb336d63f7d7b3bfcda44e76f3efc5e5eafe5ccb333489c5c8f200f86e39d41e2dc3ae42405ca83d0bd619936721962404e82407150f6e37d9ae5a65b72196bab36b261a3be63316bbf2dba5bf75e2dbbe279fa23e6bbdf75e5edfdee31deb365d76e2e3c98b5cc7decace54cef739ab44007053988051440e000a46790f4bd1e29509202038a301c880121d0a26101109bf68fe7ecfdfb57d9e9d667ea86ecfdd5af886b6c7c66bfcb89d7fc59f9667e97ada8f9d5ecd7a867e796b5dc66b8d95b98207bc8e75ecd8e8f7c8ec598789bd888d50d5ba27108e771d2931c1227310b0325340b93160f0752ac458a189003799caeb356bab3b961a25e7e2676068018505a99fe6ddbaf5fa1455a40948683120a94a49020589804192033c3ad66ed573ef6f4ffff2c6f3777ebc6fc46ddb4b4dece45bcf734b564ec7763654cc7d6c5733ee56c64433b8440e7bc4406017c36fedccdac392d1b1926c26874fde6b5f3e6355324a7490bc4801c06a46565651186a39e88c267da7b7a25db9d3a5a3348be5d77f876ae9ac8c9f59cbfcbc6ace57f8b8b7a89cad57876a88cdf8e65ca771b81f4a625da29afd732f6319ee1ff1f73a126aafedf2ba77a9d79dadde15efe6b5e211ef2b319b6756a2617a2b9a36b676e592eda210684fec88faf8857acf69f7abb8eb85e7bb9f5f97a7dde978f5e8fba781d0b1826d22492e7c12c0ac9c181c6b32ca067418b2639d0e37112044a62507a14062d9ac883819202e57116075250e2806114c4782000ec9b4571a0d47852c2229240911a8fc259144d04a26816c5b120c6820eced3441e08c8498ee5415af9ce7e38533665443fe077672bba5aea77f6a3e3fb7bb3a5a9f39e39cf92c07d6cd99d9a961c24085bde235ed7e7fedbf55adfde712daba195f2dd723dabe3e33b6737ee779b3d8a82cbec9100a801747090191baebebbaa6f7b9ba92e9e61bdf9dd6d99ab5bb355a64781acfe2bdbfb7797eda5e265b26b6b16b7d9fb3f9ef7ef5e99c26f0f89480032b3f3db563cc536f35d502049b3280e05fedade5a9af9aeb1f1653fda19a44c4eae47e9a969f6f6aab6e67678986afbad9ac9c9bf70940109143080010da0262d3080480081262d30901c12a679380f54621014c803e12447410882e7fca350579587d5a1a9f109b1d2365d077d9a1c4de67f4144afe0543378dc11949c4735a80608a6f3a05ce113054a64128a731445e1f1974b4e512ca69a522a63731312483b48b9dbbaf7fb811b926275bdf8262157437e7586683cf5e65a39c0d01c129466c8bd30cd729b4e2b2250be89d4098788ffd1300c2cfd3bef0f87ebd815b3f6c0824a455c1983b565b6e1ae2b2d2c5555a52521ec5683090def576a422e9dfaa8cea7a0acafe978b75e54fb9b156339a37686266c8520e1075f7ac631691fb5203171b930ac78305397575e19878f7c2f5823bdf538e982b3884a41f90d00e7ec77c208525f7aa1f8b1651fcb1d72ff75e3633e40791172ad90d70cf5f796545c051a685a375113d21b60836c6dd02c86fc213efccdc8cd47a0dec408958a5025a428d24f0f0d24dad276be7a30819c3c4f363876ac1318323cd3464273c933de2534f32e51e5e595ab12c2d7e45da9449a707f1af349d3bb3449ba49fc1a9ba01e90efca67a98ea5513ba22cf84b0b7d5d871c7825c5ae3ce0430f1ef60787fae6f73fb76651b09ce8802d60fa1247517a97dea4dfc88777bd794457adace003381d3113270483972c83b2da5d76e5b99d34a50eaf22654cf42ff196767536b3f79379e4dc107cb6db18539661ba1a62fa82b0f4c156c7a8f3ad26072ff6b4e94867bbc034d98f3e991726c1ed8e4f156c302926b549c52bdfe1941cecee3dddfeec030b6c4c8746fd0df74aae7d9d3063ec38d02c46a05669b2aa4b804873b3d64f13b0085f254c9f688a4c09e107a12b34da4841e507e8119e05087796212d5bdd13a77463ee835755bdd52e9cd8021ffcc9ca460f1ed2725ab58970953c06de0eb57b6e1e10da75f0aec854196db8e247033c9bb83ce2662439787c14eeabebb611b191940857bfe029bee91f2fd6e079a84f865e139fb8f803062e564ac7ce519a9440877842d45faa23cc69714708c9219e69324aba9a5dfc3426ca33ab1c90204d7372dc1b48a5c95557cc1aa43ef6f39b8b67839c44e54c14aa748c1a9510458f82be18e8c1cfbec8c9a7a8fe1d5dadd798cbe2943b2041cd554c01810cce67847d98abe017d37f9050e4ab21a5cacc150a0a33ac5802a72f6087c8e2048e6d074b1206c2db621a0872d54ce2b7200c6d87c71f48befb089cba0a35b1ee64e9f65ce6efa3940d7af12acb24f24a2c6b01ad09064a0b5741e7fb0464afe7ca71850c77c76090783aeac65b8aa9ad7ca0ddbc033fb76721e1cc6d4f9004a8484d25983405d4560d811726bd6c8f2c4feb9e8ac0efe5f2a76bc0c9271dd402a4afda9f1d6bae59cc3bc2bcb8cdc9d775fe7420b12e8addd10446d80d87c4120e2f90ea1e3633786d045eb7c94fc407d6988918c202b0113092fd46f6ac6c67dd8652e2b0c5610584e45f98f2436575f7ca5cfc8556bbef941b56ceeade6a6867937be48f9ccd602ec1324585f67d27945d33ed308723f4292d19b98d4fe1ab7454658ee944d85340bed162ba94820aee54ba95e822543a4b721a73e692de1aa4dd7e11820fbea56b8367caa87bd76b948251133342bd8653dd8d34188c422693ae6d8e986543e7858d1f81a819a830f33199ebc09c1636860472f436d03b2a2b5519cb71e33980f5433532c05d0128a698d8abb4d1631445c80eedb3f163ade38361bc5ef7b204d8e35806e021a452e6b23383407c3184fccb60ec2c8fac9e25c18eef4a108d598045d955310ec9280b6d6bb4e4f82b548285844b1dc257b77201adc712dcb34ab83d53e5df12d6f8e7ade9bf9b114069eb7d08811104fb10aec0aea4e19f6c30dc054aaa0ec85c6bf500fb9cba62128784d98bf31ded08db466d494d41013ff6b774a96a4e8a4c305ec17fb6497ccc27bfc01288088d5f56df9d4f1685b6d3a2328b2ff7eec5e0ccfcced36227c6e756488d42cb99cd9243eb639e4c98e28d72ba0d7a5aeb2ed1f4ecb484802be97ce3d713a2e498f2d6343dae921ce2a010b34d9c531b11cd2481a82649b584b6b3213d08ef323458ad5ca8ff451851710c2d505cae503eddc431cdb1ed3444f574b2a1559ba756fd17571fc0997350cd23843095518c818a2bd8c727eb3f29e3ceee94d5cc309a538fdc01fcd33f795414931b73fe8db13a669c89c28c747923b2b34c0482228b69846cd5cd27881458116b1404a9cbd167f4c981274195e841361c8b134d04175b28b13578af19b5d70538e4440585f858bd71dc6a52b47c723683b2b7e7d9e952aab3b668e23891c9c7fadbc0135dfbeaa00022cac25c51dd54219422e24b12ac72908e9173a4667a460ac176ac8f08aed573e2b584e82b99ae6f5ac28b23e3e4b38a433a77d0174c0e6de8ab078c77c7b344fb807f61b933815f388547d82745dd40d6ce240a05e02f81ea0e252f5d64c3ecd0088f90776e72955ae9be1818d1e3ddc48cc5ba55ec9911960aaab8fd9bd3839a5461ed4357f09f413ce582f23ff59d0b0c4411bd2970a52bc84c436848d67a48a5c100650ca272a2c91d205e84f58b1d4c0e21b18df5b7cc87dbb90637ef108461a906015979cf69e9e6ad7f2f347f5261a4bc79892a608613b09a579b466221384243d77987f1b1073c62851c7612c5ff0a30ef77f9a8431585269428574baf5c65b60cddbd9a7a84749ac6cf805a372c8c5c2b43c8635c5ac8a2298119f4203d44d4291d8171915fe8be6fdb4036bb5616b1d0ce84289c237a8a5bcc9b1759c125bdc551fecfcd26cd513614029738f9f3071732b406852c73d41f1e538c99dd0c73947c369c962192e472fceae0f827fe3fd58a70793ada365d6b055e6e2d45ea0f0e04098620a92b9982a88fea55995b05895ff1c65cb00b24224a412bba0c11baa8a4dbf82ca9a1685355eaaf93b8539ed419584a0935b8269156ed346491b34ef4c4bbd67f4e7e431e32635d731ac0bfd089359b30906ec2930c45f1ae5950fdd11f67ac8f4ade6f4d9e13620401254834');
INSERT INTO public.teams VALUES ('00000000-0000-7000-8000-000000000000', 'default', '2026-01-01 00:00:00+00', false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.accuracy_daily
    ADD CONSTRAINT pk_accuracy_daily PRIMARY KEY (team_id, dimension, code, day, device, model_family, training_method, stack, engine_version, label_value);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT pk_api_keys PRIMARY KEY (id);
ALTER TABLE ONLY public.audit_events
    ADD CONSTRAINT pk_audit_events PRIMARY KEY (id);
ALTER TABLE ONLY public.calibrations
    ADD CONSTRAINT pk_calibrations PRIMARY KEY (id);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT pk_idempotency_keys PRIMARY KEY (team_id, path, key);
ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT pk_ledger_entries PRIMARY KEY (id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT pk_measurements PRIMARY KEY (id);
ALTER TABLE ONLY public.projects
    ADD CONSTRAINT pk_projects PRIMARY KEY (id);
ALTER TABLE ONLY public.quote_events
    ADD CONSTRAINT pk_quote_events PRIMARY KEY (quote_id, kind);
ALTER TABLE ONLY public.quote_labels
    ADD CONSTRAINT pk_quote_labels PRIMARY KEY (quote_id, key);
ALTER TABLE ONLY public.quotes
    ADD CONSTRAINT pk_quotes PRIMARY KEY (id);
ALTER TABLE ONLY public.teams
    ADD CONSTRAINT pk_teams PRIMARY KEY (id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT uq_api_keys_lookup UNIQUE (lookup);
ALTER TABLE ONLY public.calibrations
    ADD CONSTRAINT uq_calibrations_team_id_number UNIQUE (team_id, number);
ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT uq_ledger_entries_corrects_id UNIQUE (corrects_id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT uq_measurements_corrects_id UNIQUE (corrects_id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT uq_measurements_replaces_id UNIQUE (replaces_id);
ALTER TABLE ONLY public.projects
    ADD CONSTRAINT uq_projects_team_id_name UNIQUE (team_id, name);
ALTER TABLE ONLY public.teams
    ADD CONSTRAINT uq_teams_name UNIQUE (name);
CREATE INDEX ix_api_keys_team_id ON public.api_keys USING btree (team_id);
CREATE INDEX ix_audit_events_team_id_created_at ON public.audit_events USING btree (team_id, created_at, id);
CREATE INDEX ix_audit_events_team_id_subject ON public.audit_events USING btree (team_id, subject);
CREATE INDEX ix_calibrations_team_id_created_at ON public.calibrations USING btree (team_id, created_at, id);
CREATE INDEX ix_idempotency_keys_created_at ON public.idempotency_keys USING btree (created_at);
CREATE INDEX ix_ledger_entries_project_id_created_at ON public.ledger_entries USING btree (project_id, created_at, id);
CREATE INDEX ix_ledger_entries_quote_id ON public.ledger_entries USING btree (quote_id);
CREATE INDEX ix_ledger_entries_team_id_created_at ON public.ledger_entries USING btree (team_id, created_at, id);
CREATE INDEX ix_measurements_quote_id_created_at ON public.measurements USING btree (quote_id, created_at, id);
CREATE INDEX ix_measurements_team_id_code_observed_at ON public.measurements USING btree (team_id, code, observed_at);
CREATE INDEX ix_measurements_team_id_created_at ON public.measurements USING btree (team_id, created_at, id);
CREATE INDEX ix_projects_team_id_created_at ON public.projects USING btree (team_id, created_at, id);
CREATE INDEX ix_quote_labels_key_value_quote_id ON public.quote_labels USING btree (key, value, quote_id);
CREATE INDEX ix_quotes_supersedes_id ON public.quotes USING btree (supersedes_id);
CREATE INDEX ix_quotes_team_id_created_at ON public.quotes USING btree (team_id, created_at, id);
CREATE INDEX ix_quotes_team_id_external ON public.quotes USING btree (team_id, external_system, external_id, created_at, id);
CREATE INDEX ix_quotes_team_id_model_created_at ON public.quotes USING btree (team_id, model, created_at, id);
CREATE INDEX ix_quotes_team_id_project_created_at ON public.quotes USING btree (team_id, project, created_at, id);
CREATE UNIQUE INDEX uq_measurements_key ON public.measurements USING btree (quote_id, source, attempt, code, method, scope) WHERE (corrects_id IS NULL);
CREATE TRIGGER audit_events_stay BEFORE UPDATE ON public.audit_events FOR EACH ROW EXECUTE FUNCTION public.audit_events_stay();
ALTER TABLE ONLY public.accuracy_daily
    ADD CONSTRAINT fk_accuracy_daily_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT fk_api_keys_replaces_id_api_keys FOREIGN KEY (replaces_id) REFERENCES public.api_keys(id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT fk_api_keys_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.audit_events
    ADD CONSTRAINT fk_audit_events_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.calibrations
    ADD CONSTRAINT fk_calibrations_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT fk_idempotency_keys_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT fk_ledger_entries_corrects_id_ledger_entries FOREIGN KEY (corrects_id) REFERENCES public.ledger_entries(id);
ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT fk_ledger_entries_project_id_projects FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT fk_ledger_entries_quote_id_quotes FOREIGN KEY (quote_id) REFERENCES public.quotes(id);
ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT fk_ledger_entries_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT fk_measurements_corrects_id_measurements FOREIGN KEY (corrects_id) REFERENCES public.measurements(id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT fk_measurements_quote_id_quotes FOREIGN KEY (quote_id) REFERENCES public.quotes(id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT fk_measurements_replaces_id_measurements FOREIGN KEY (replaces_id) REFERENCES public.measurements(id);
ALTER TABLE ONLY public.measurements
    ADD CONSTRAINT fk_measurements_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.projects
    ADD CONSTRAINT fk_projects_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.quote_events
    ADD CONSTRAINT fk_quote_events_quote_id_quotes FOREIGN KEY (quote_id) REFERENCES public.quotes(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.quote_labels
    ADD CONSTRAINT fk_quote_labels_quote_id_quotes FOREIGN KEY (quote_id) REFERENCES public.quotes(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.quotes
    ADD CONSTRAINT fk_quotes_supersedes_id_quotes FOREIGN KEY (supersedes_id) REFERENCES public.quotes(id);
ALTER TABLE ONLY public.quotes
    ADD CONSTRAINT fk_quotes_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
