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
    revoked_at timestamp with time zone
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
INSERT INTO public.alembic_version VALUES ('0006');
INSERT INTO public.idempotency_keys VALUES ('00000000-0000-7000-8000-000000000000', '/v1/quotes', 'k', 'c879a0f7ce08d5f510f551fdd51d21e8d5189c69d7f958b99a7536af78e21f4a', '01a23008-32a7-75fd-ad98-67ed072abf94', '2026-12-01 05:16:13.351161+00', 201, '{"Location": "/v1/quotes/01a23008-32c3-7c7b-8c1c-e19d1f23e88c"}', '\x28b52ffd6501128acd6f00ea8c7c1528104da374861a376cfff411eace42833eea8364dbf39d6ed692db26bbc96eb08f219e800000003810650136012f01e69fe85b6ea9dfd6c9ac4066eef99a8f6a8d6db79c957b78adf8a9dd675c8889b99e897daebec56dc9ab986bbaad75d7ad7e9c7f9c8efb956afa7dedfed688bcb5c6ff7dbbe89c8887656bc89d897cb78d9de58c6debdaea8baf5fc6cd878bc483f46bceb67fde6cd8d5ca435996dfbe53b433c33b3fe437f7fd7eeee5ccc555a0e48ac768693e693c128984022d8911712426d032059a341ea881c27675413df9d0816fd158306d20d81efe396a1293240ca881024d807835f1120a42921a66b22420056238d0013d249385410af4480d2301831a28502349168b0291a4a621a1c304e8a1a406355020664908ca820ea881280de3601805b1902051128314a849481144240ce88014208e83e088ab44280f65591c0b26311223490c13061d102431449002319346690ee88145fdceca53f029d61c3843e021180d910235ca82911a254912d00125b8a7c4c631fe1222e1121c81d0098dc8044c849b252a674881180ed420fabaffebdfbbae75dbaa8dcb66a89dc5bdbfc856eb7565fdca33e43c53cbc64df6ca755ff67537beb4e2443dbb83c4c9f547126938de1d24cead3b4c52a034e7dc1b966923979d86c3a4050a73b21fd32c37dd92cb58b5910d1bf51d8b59fb6dd1ddbaf76ad915cfd31f31dffdae2b6fef778ff19e2dbb7693416459cbdcc7ce5acef43e069218e7a01c26b18002081c70f40e92bed71f054a62683893c6e3349cc46140588004e36014846733e53b7cf6f3626d3e4d733ec5deafbd57c435363eb3dfe5c46bfeac7c33bfcb56d4fc6af67b337ffd6ed3bc2b4ec3fb4446e57d2fccc3773fb5b537ab57767ce4732cc6c4dbc446ac8670df71f6b5373e3b97231e24f6356764e37565ae77f7c53fdd2eee3b48de8898feffffed8875f8e710bc57a00505c7821d7ede263bb26527625b9776b65dfe06587bf4341c4612395d65ecf2dc5d5664f35356b66b2b734c3454c73a8cc490280bcc51285012435ae058d03938c5f7dd6899daffffb5ebacea6dc9f7f8e76c69bd9d8be8dde6c6c8abdf878f9b8ead8be7a79c8d6c687712e89c97017c2e70a333abbab7f9b24c1a6c87aff6fe67978d8bc44012e3341ca6acac6cd278d467da7b7a25db9dfa028539ca593b48be5d77f876ae9ac8c9f58c8f7ba78c75bd8bcba6d9bae9b5967696dfa9e6d5ee773b917c67feee226e7d72dfbd1de223a696dfe2e6b6a19d71d6aba9e5dde15efe6b5e211ef2b319b6756a2617269a3bba76e696e532882c68771ad6d01ff9f115f18ad5fe536fd711d76bafbb73eb53cd55d78d7fbbacfbcfdf6ddbdb91cbf711d73cdff1beb1f8756f9b5bf57f91af4cf3189f9f0dd9d1eaac317d31b73137eb02132ccb04a2404d647130a003040b8d83c1691c8701498f13698e02c4b1d0442087490b94b49cd428cb61402691c6490a9486713c8e72148865514e237200b0873894c7490b4d52604c101669a159308e05642259401cca8369209348c261d2c3d11cad7c673f9c399ee32adf417db7f5954f2df53bfbf1fdbdd9322d5098853aefd965b3ad9d02318d43810f9ff7de980d2192a4d3f1db3a158b93ffcff3b06ffbf0b6b6d5b0cbfd6eb99e151fdf39bb71bfdbacac51168be232fb23c069e01c9863c686abefaeeadbde66aa8b67587f667e775be6ead66c95a95124abffcaf6fedd659b8a97c9aead59dc66efff78debf7b658bdf3edc1170ccec7e7bf34ed17c1928120471288f05fedade5a9af9aeb1f1653fda1da44c4eae3fe9a969f6f6aab6e67678986afbad9ac9c9cf78940109143080010d1c4862c04022010420890103e88016488489a0d292a048220926314a42826998d4a00362d2e2681c058863498cc8e3688305fc965157b767752b758b1aeb1d747276f4d5df0571db8283dce855ea0415cc65d88ea878934295c6b4615432518567f2303234aa6065be47a6c7edea84fae93275ee6dfe6d70c08550654cfeb0787bbf063dd719d4780a9c6b928069bf4b50e69043c634cf369dacd89f7c2b52030e8907685b1822fd71de0fa066b29a7d9a390ea8a0889721185fb6c53b616936a9aeea7a2ca26f799b6c70bfe55a64693d080a971ac8c28e0e6cebc5c5bf592d96a16099990959e101805d9ad89bc8b48a3cc7c7d2e07294bc1dcc04a5155dc6e1205f0dd6a6fb21936200ce5f0f13e7c4fe5377fc1215d22277fedea4870488ecbcf534f94552c6817a0bcadf08e072ddf7a30d137924455abd63e8bd8ccace3bb3dddcba7907d40b81a14ae4a98114453ae9a1e1586cefb2d44cfc7a4766790fd1600e2bedbbf2715575f2119778c610f90cc543e197e810bf5ecd4b55c148805b1b7e6dbd68c33b42c94c0c8a2a2a3cbb99e61a872018a0fc4a61938e1da2cefc17fd809886eb7424f50b2e06eb8116f5e0b83fb8e99bdbff99338b08234537b600483ff11a2d7ea901ed463bc1af03ec725554153c00a75d33a1fe2f6092656496efcb589e8f64a7bcac15e38c097dc96cad5a075e7bff9e47e60dc167bb8d31651848ad21e42f084f1f6c75ccba476b72ee626f9a8edced02d11a953f41e946b275081fb775ccd4662a19f337666043c3eb6031ed737a70d2f6da3b706f066397c38e5e9cf79471669b68891179d69954959a23d068ee295409b4c8418f3ba89b3aa8137986de951b2aa40052007e9a6f1191031f51dca8fbe4c9dd993ee457527b450b945788033658b1c321a718cea8034abb3a2e03ce0743fe771728ed0b3995635326d70bc9ef661727905c990843be9dee3be9dc4881f08657817284d9b5102764eb4f0fd6e688d7c72d60738df3fb712b5225adf37d942125d49927f1f8213c28386d40482ba54794c772061b014c8ec4f1544364f1581fc6e4d6931d059c0be6a40b76cab69da698eec7b2843e6a03dfc5896835cee1ab928dacb52fa8aa6c3ab7c9a03ae56d42795956f26f1fab6b8b2d3d938e05c57314bd308d5d0de7585246dc29f7c5b14c08e79a20212b6f5e8a02cab1b4608058826cc7b2552a5e50e028b116e72818904ea08eb48d1f08ff831af5df0271a3075a1f383884d5a9dcbda1d183a7267dd07ffdb3930d817929d3a7f882592201173486a010a9f38c3dffe92779961d8e232dff6c8487b46b1caaa466940e5a491d71a8a17614ea9b7c681d02ddbab9499390a69a48ae817861cc3bfa88f1b451453090cace5e7146dd3d5c2ab2480941faaafdd9a8e61afbbc23c88bdb9c7c5fe7bfd9117b95e636992b8298908dfc8f108483072ae1c6b046819b213ba930584ffe6d87106f26ff51b8838d1090b3e433069aed61528ae07f5ef4202094ff619a1f8bab3b923ac6d29ce4bd5f29233ce697a0d31eeec8b38de7a5c252b477534b7b86d1efde3262e6f6286b498e857463a5489d580b532dbfda5ba677c2d582d2465707dcb15082c4eaeaf2bac016324e2e70b7830c583db835c9f62130c0c9dad8d316195e59fc088026084d98329c9466237841f8db32a1ff77cafe1d169eb8b86551f33036c61d451ba0006a07ee1590171244b3b781deb6b8acca0bc88dce01e5098ec36e7f7548d394f74a174316d588ebcef93933928358c69d9103cc66b1b97c1607090d95031fd7fa1f91a18876a29b1c910cd51cad0e155f2225ddf95c1b48524b2b6e48dab21492229171b09708500b824fcbac7777349de342a43cde4f3afda3b57dca79d3f1afa81fc97e909e2010486c05ac2dc5af6f7b032e08a7ba779e0dc9e307a43b7b291719542ae2f3c77a5dfbe7963a1014d667c78c5dcaef3af37c5702dc82c730f333514d64e3a4a5173d34a1b47d57ff15b1db0b2d8bb3e03bbf8b53f8960ceb691f7f902e6035585fa779ca8c4bdb1ccbe0dfd5c78525a5df958c782ca5f9bf004166862ef3d0ca24636959b18bf82767dfd305d51a8fea95d8ba57026bb714125167fa0b7f6cb8d95c74c0244cbf44f3d44cfb87977b5329a94dcc530ddd2c83dbff1dec30d337c39d4619ed015182155bc5155bf27784830cff2a1aba0c6bb965a5314ff5f21c286f1b4db4b0d8a916b08e0fc8d0be18319e17e56f172ffe394242f2c4624622d7787310485206c61e0b86e479f2f33165c007d2935fac1dbee9ac79a9302ae4af3c1c4a4749d5813be8414f81c9a84488b7790a0fc3aaf76414d7c09d2281fa761c3f9a27d7b5173b2511aa84e2a8e029e53b9ea4dde6202351a7a4d3e499e43d7d8c9cb0686a40b30ab604ac63f35430fe57cc304f29ad375e81f6cfb8eef7ae985c98f3430564042b172022e11cb9adcdee36ca05a0959a5c5171874a0c410d09bafa8fcb0ad66bfddce8358e735e58ac78bf173eb34e080bca95a626027fad47517cd265305c1495b4c2187aef2be44ab532e96208e2ddbb363e46772bc6cb47612be80de89338ef28251006c572b1bc72845de008b2acdf3814f043299870190e097fa3480e439959c8161609040dbd9ee6681cb3d276ec17e7ee13216e3fba72259a95a7ac0acd165aa232a528256036b19edeca5e491143fa736d4471393ac4e00b27c5e30bfe39a4fa1ddd51f9f87ad3c14c4f2e1a5f373dc507ea138d2ef9dee3fb1e508a0a99cd22faff2bbcdeeff2d18c2a0afd2851ae965eb98a6f19ba7b35f508e9348d9f17b56e58d8bb56869087bbb49045535a33e8417a9ea8d33f02e3226fd17d0bb7816c76c32cc2a29d0951e847f414b7183d2f72854b7a8ba3fc9f9b4df2a36c54042e71f297705cded41a04b2f8813f47fe1c33bb19fc28f977388d4424c9fbf8d5c1f14ffc7faac5e1f274b4edbfd620bcdc5a8ad4df1e08120c4152573205d124d5ab32770d12bfe28d696117c8499482d679194e745149b7f159aa43d1b1aad45f2721a83ca95fb0941275704dd2adda74c82267a8e88977adff9cfc769c65c618befe91f958206c2e65209e871bf214c9af6199e1a33f0e5b1fa0dcdbc45b194df6d03f367bfd1bce1f40c73906');
INSERT INTO public.measurements VALUES ('01a23008-3315-7e05-b102-ae52dd6e1ee9', '00000000-0000-7000-8000-000000000000', '01a23008-32c3-7c7b-8c1c-e19d1f23e88c', '2026-12-01 05:16:13.457412+00', '2026-12-01 05:16:13.457412+00', 'test', NULL, 1, 'completed', 'training', NULL, NULL, NULL, NULL, 'device_hours.run', 500000, 'scheduler accounting', '', 'allocated', '', '', NULL, NULL, NULL, 511887.8043793035, 510305.8354734062, 525571.2641152923, 511887.8043793035, 0.8, 500000, -0.02349737053270264, false, NULL, NULL, 'h100-sxm-80gb', 'llama-3.1-8b', 'llama', 'full', 'hf_transformers', '1.0.0', '{"team": "search"}');
INSERT INTO public.quote_events VALUES ('01a23008-32c3-7c7b-8c1c-e19d1f23e88c', 'superseded', '2026-12-01 05:16:13.429829+00');
INSERT INTO public.quote_events VALUES ('01a23008-32c3-7c7b-8c1c-e19d1f23e88c', 'measured', '2026-12-01 05:16:13.457412+00');
INSERT INTO public.quote_labels VALUES ('01a23008-32c3-7c7b-8c1c-e19d1f23e88c', 'team', 'search');
INSERT INTO public.quote_labels VALUES ('01a23008-32f5-76c1-9be4-7094b4235b3a', 'team', 'search');
INSERT INTO public.quotes VALUES ('01a23008-32c3-7c7b-8c1c-e19d1f23e88c', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:16:13.379425+00', NULL, '1.0.0', NULL, 'llama-3.1-8b pretraining', 'search-assistant', 'llama-3.1-8b', 'llama', 'h100-sxm-80gb', 1024, 'full', 'hf_transformers', 'slurm', 'cluster-a/123456', NULL, 'given', 1783365.372953305, 1799605.5622709887, '\x28b52ffd6501ff00550700540a6c6c616d612d332e312d386220696e67222c2270726f6a656374223a227365617263682d617373697374616e74222c226c6162656c73223a7b227465616d227d2c2265787465726e616c5f726566223a7b2273797374656d223a22736c75726d222c226964223a22636c75737465722d612f313233343536227d223a7b2270726573657422313530383139323136626668313032347d2c223a7b226d6675223a302e347d7d16fc8400250bcc1149f28a6b9910c1e1bf164c7691b491056a63abc41be1aed1732cdcc38f9aaec041da2436d74b180725914f3cd6d330fae3fcea93425c02792b19055f91e1fc', '\x28b52ffd65016289f56c008a8534142a106b466903061763b67ffc8f1d9832258cfb088077d789f7b6a46d777777f72664f001dd400000003808470120012601aaa89939ad0b73916e21245e333beeeeee653354d6c50eab4e240c0a180c2febab3c65d3df9ed97e11eeedeb3acf7dc689f887bddf534d243ff3355e1b7e6d5fa9872ecb6ad1fa70b7aec8ecec92ef6c8b9113e9fe34d12e8fb988aa76914baf4b8f2d1b1d1e7b6b99fb6ba689f2dabd9569ac6756869e37dd3bd3aa5cdb43acb64fc6454e6b6c745d2d4b146708a9f3accf2e5ebd2d5aa5a12c4be756a1bd7eabe232ed33676feba6dea56522498c566abf7364a181402012c992160f062202444f24918546f220f14c64403eade4a0a55860382e2478967571d224264118240f12490489269e15424980a486892c0a492259309243d28044162649248dd4301030c98344b290208a45714052d3909243044943494df22091304b4aa02cc921691c4ac3301846496050802889491249a3901e784018248744818371127042a14b501acab23c0856bd86b4312b5717b13b4d0b1dafd45a5b6fca76545f3b4ebb5cbb3c54d898ddc9bd998ca87211d7527fc33da49badb8c56f322a36babae9d5f1b796a78c2e99533999af75477a86f542487a8afa401e0b6c5508492f511d262d509a73aa6fe8b8a6e8a7e130a981c29cdbb6fb2f8f7f8aae886b7a5bc36643aab8fd34e6ef66a154462b3e6eb36be6aa4557599d596ad5fa5b94790e1e4bfe2edbf650ea1d6f318eb43807e53088051440e080838590b019f559a024060d27b2d0380d0771160e1500d1faa356592b1723c5d5c23b6ba16d36ca6a34cbebb5feced4b35aed43d73f57dda2e1355ae5ea9f1b7bf7785548ef567da6869acdc8aeac990b9fef1f352a5b9b161b523bab3c5b33b40edd2abdade5b55656c466084939cf6a7a4dc68ca280601a2635c92161d2c258380a1c8c252d1e8d8386f2e069380ce45198a8b6882f33154dcf858afadaa3b39ddd900d9d455a401406e624162889416ac0589283709056efdaef70bbbb51262b22ef4fabad8bf5f7cdbd34e3ddf3d534b1b7ac2d8f6d31adb8506f4d6faf8330d6ab0ba08f41d758159179cfcb1259d09735beb9eb756b8ac438d2e2341c061d1d3db2d0407df7e66374fa2ae4060a73949347489c8baaac5f8c78a6a7a8d5dab20ad5506da6a51e6f318f51fe5ebfdec3335ae6aa8c407aef3a33cd12f5e956f5cbaccd0e11575a5eeeed753dd478fc5595655d375e21b3326dfd6dbf87778aececccc6b877897ee9e0b1d8eb34e48ddbb4add1ac90e2bb0f2b93cd9251d6ee5ea23e3c23265f3b177db78b9b9fcbcba688b3cdf27ccd01112c4bc491489ac7c260901c1c6068180e4ec3380b476a9c47731438180ccdc37198d44049cb498db29c8523f258386981d2308cc6514e22615994b3f03800bc1d0ca571124393142c22091489a151300c8523025138184a83691c9187c2615283d11c44d7ac7ca8b3155ba2d6013973b1510b7fd87bdbd6dcbcfa4b0d144681ac59af5b7dbe1209d3301468596b565ff5494282ecb1f57e0f0de96977f1956de59655a25cbc2d62ae4a45ad686dcd7abb96bdfba3378a428114fd7d04380d9c03737ebd25363322e7f2fe886975435d3f5755a233f2578f2e350a24b11bf5cdbd8b9e875677cab87848f76feeb6e2edcc425774eea18a80f3bf3a37af0aed9c0e1448e260280d85753e2b7f3f675eaf75dbf64248777a8afa1c1fdedf6fc4e7f9656587cf5ec43b3ded4503199040010318d0c07124070c201240c0911c30901c92c5f1601e40695150200f0493028302fce65057b767752b1d8b1aeb1d747276f4a9df0571c58283d1e855ea5414cc65d80ea378939294c6b4355432258567f23032b4a46065be47a6c7edd484fae93275ee6dfe6d70c08550b54bfeb0787bbf063dd719d4780a9c6b928069ff4850e69083c334cf369dacd89f7c2b52030e8907685b1822fd71de0fa03ab29a7d9a390ea8a0889721185fb6c53b616936a9aeea7a16a26fb9986c70bfe52e6469e5070a811ac8c28e0e6cebc5c5bf592d96a16099990959e101205c9ad899c8b47f3c07c5d2e07294bc1dcc04a5155dc6e1205f0dd6a63b1f936200ce5f0f13e7c4fe5377fc1215122077fedea4870488ecbcf534f91952c6817a0bcadf08e072ddf7a30d13b921455abd63e8bd8ccace3bb3dddcba7907d40b29a14af1a98114453ae9a1e1586cefb2d44cfc7a47667904d1600e2b3dbbf2715575320f9778c610f90cc5438997e850bc5ecd4b55c148805b9b786dbd68c33b42c94c0c8a2a2a3cbb99e61a872018a0f14a61938e1da2cefc17fd809886eb7424c90b2e06eb8116f5e0b83fb8e99bdbff99338b08234537b600483ff11aad78a901ed463b11af03ec725554153c00a75d33a1fe2f6092656496c3cb589e8fb4a6bc8015e38c097dc96ced57075e7bff9e47e60dc167bb8d316518e8ab21e42f084f1f6c75ccbaef6a72ee626f9a8edced02bb1a953f41e946b275081fb775a0d4662a199b37666043c3eb6071ea737a65d276d53b706f066397c38e5e9cf79471669b688911c9d59954959a23d068eefd530934c3418fe3a79b3aa8637886de951b2aa40052007e9a6f1186031f51dca8fbe4c9dd997ee157527b450b945788033658b1c30ba718cea8a348bb3a2e03ce07ebfd771728ed5b3895635326d70bc9ef661727905c990817be9d963be9dc4881f08657817284d9b5102704ea4f0fd6e6c8d4c7cd5e738df3fb712b5225adf37d942125d49927f1f8213c28386d40482ba54794bc72061b014c8ec4f154436491571fc6e4d6931d85960b36a40bb6c7b69da698eebcb2843e6a035fc0896835ce21a9928d54b52fa8aa6c3ab7c9a03ae56d4279f954f26ff3aa6b8b2d3d937805c57314bd30775d0d87575246dc29f705af4c58e69a20212b6f488a020aafb4608058826cc75a552a5e506023b116e72818904ea08eb48d1f08ffd319f5df02717707da1f38f80b522cb9b32645844f8df744fbe4872710f6fc52964ff105b394012e685c402152e7197bfed34ff22c3b1c475afed9080f69d7385449cd2812b4923ae25043ed28d437f9d03a04ba75139226214d35115703f1c298f7ee11e369a38a6020959dbde281ba7bb8546491b280f455fbb351cd35f679479017b739f9bece7fb323f6d2cc6d32570431211bf91f2108070f54c28d618d023743762661b09efcdb0e21de4cfea370071b212067c9670c34dbc34c14c17fb7e8414028ffc3343f16577724c58ba539c97bb4524678cc2f41a73ddc39671ba34b85a568efa696f60ca3dfbd65c4cced51aa921c0be9c64a913a5115a65a52b5b74cef845305a58dae0eb863a10489d5bfe575c12a649c5ce06e31680d583d541b09b11241324e1cd1c2e66d7d4fc126c0154168c594e1533a8c1002e163970995df299b7758f8c1459945dbc3981c77142b8002841d3853409624418ced558654efade3cc39e0d68aeacca8d114a5909b58adb41fb428fab90ed3b9711989c725eecc3c406d8ad5cd6777f039e81ef5b8abff300c427467b1586aab03f04bfca408bfcb069a6c79951bba360b6ed65859893f34829104a5dad569f1b61ee3a3a229bfa15f183e7feb1f44ec389c87e20f4afdf0f7412441c88fa61584a1b4fcbe8dc35cd084ea847ab6778fc70f1efd92849c60a77227154f766da2b724a6a086951dadbdd4b4ee4cbda90430078f95cd0fb8fa8d77db958e72cb4cd0365be7be7b642fe5459cdbdc395bbecfe26058f4255cc2b47ceaaa148fc29e19d829f0b4c1670b8ecb97339d2d33f54dda66fa030441293ac738232bb949643fbf705f9d3d4c01a8682baa4cf2ea3229acce75300738394f1601e163b9f8848d66fe07f15928d16f1def6ffac9360e9f6a70b30c69fff7608759df18e33466b4878812d466555156c9c717f831fceb65e83254e59695c63cd5cb47a0bc1534d19662276f22bab36ceae3f1ca5348fef6e2049dc322c4be2d663072613715815c62606cb96017462772bea08c7e0abd7a65d99b43cea66b8a4d8550b981a56994ba0ec6c1128828904025c27e1ba2f019561d5546311bf850c4a96f46ec634ae4baf3e2a164812714810a88d29c8b4942760ed2316a8fd44cee4821f78e79d4441f0d2855b088800d394f45c79f8929ca9492bf91094ce619577c8f89a10873042aa04cc0c2007212de91dbe0ecaea3a400b4c88489aa77a8c5905db7a02b7d5c4b305be0a78f5ee738cfc2e2c2f0ed8032ee6e70f1ac7e5a22f0e3fa0e85285d1ec3ed5055ebc410791f46ae4c2b7717a3103fde41336376b7325e33225b417b803399f941e9833058960bcfab41f08241684af50d45019f958295cb65f8f905c5e4d89389856c6291986968ef698396988db637bfd87e730859fbde7f2b05583de556d856cf06696988528e3d9b44823981fdeb345273a168d04649d52058565eb33adcbcf7ef85d09f5418d49b579a49ccf86454f3bed1485c6a8e50689df71ebb2f118fa8c06116a1ffafe0f57c17b13a54a1d0841275b5f4954b66cbd0ba97af47884ed3fc0ca87587c5c8b5320839c6a5855c341198411ba443445da5233017f90bddfbb60dc9666b653116da59888a7344afb8b579f382155caab71ce5ffb969d21c658742e089937ffe602143cba0c032477dc3638ab1d99d618e9267c3c93244482ec7af1d1c7fe2ffa7aa0897a7475bd3b5acc0cb8fa548e3e04010c1902675055310f551bd2a73ab20f12bde980b764522a214b1a2cb2242579f7485cf921a8a3655a5f6158d3be5319d81a5945083cb1769d54e431639eb44eb7857fce7fbb7e3213326f1b5834c170261731303f526dc10ae483e1e0b0a1ffd71d8faa8c4fdd6e4593e466df8960d');
INSERT INTO public.quotes VALUES ('01a23008-32f5-76c1-9be4-7094b4235b3a', '00000000-0000-7000-8000-000000000000', '2026-12-01 05:16:13.429829+00', '01a23008-32c3-7c7b-8c1c-e19d1f23e88c', '1.0.0', NULL, 'llama-3.1-8b pretraining', 'search-assistant', 'llama-3.1-8b', 'llama', 'h100-sxm-80gb', 1024, 'full', 'hf_transformers', 'slurm', 'cluster-a/123456', NULL, 'given', 1783365.372953305, 1798735.387241347, '\x28b52ffd6501ff002d0700140a6c6c616d612d332e312d386220696e67222c2270726f6a656374223a227365617263682d617373697374616e74222c226c6162656c73223a7b227465616d227d2c2265787465726e616c5f726566223a7b2273797374656d223a22736c75726d222c226964223a22636c75737465722d612f313233343536227d223a7b22707265736574223135303136626668313032347d2c223a7b226d6675223a302e347d7d16fc8400250bcc1149f28a6b9910c1e1bf164c7691b491056a0325de08bb464f5870037ed4ba0287d293d88c5fc238c8887c68b09e86d11fe7579f14e212c85bc92840d68094', '\x28b52ffd65011f898d6900fa80901329004d86d3018e5c132d7abe51f91d03f447fd4bef580c1e1dc70db29bec26fbd1510834feffffff50023b0119011e016bd8d5880689d7fb2cd34bdd7df14fb78bf58af13e91341296861d7eda9d7fb26527ea277a572beef359a67e1b7aedf11f1af3a67b21aeaeb5dfa777ab71375ff9f75d3373f2b32e97b3616edb5ff365a939f2e6fa31f67a9929ab1fffdd2dbe569fe6f7699e627bd666fbf77dffb23b72976fea7522df6d63673963dbeefb63aa9e67ed5f1a261a24d54e7dedc46ac5a1308cdf26a2a29d19def921bfb9eff7732f672e6e2249ae788c96e611860381402412262d1e0b628196259208c39134246c571beac9971cf8148c862923c15ef224274114928644b220e1d5c443280790f43811062149248b2539240e4884719244e2488f13819334241246822818a581a487212587058943494fd290481c26255098e4903c8df2388be328070d0488929c24913c08e981074421392409cd8212f8c1551e280e85611a02ecbd9dabe56e886b9eef78df58fcba97dbdcaaff8b7c659a8ccfcf86ec6875d698be98db989b75fabaffebdfbbae75dbaa8dcb66a89dc5bdbf80280d3b3e44556e2cb336d63f7d7b3bfcda44e76f3efc5e5eafe5ccb333489c5c8f200f86e39d41e2dc3ae42405ca83d0bd619936721962404e82407150f6e37d9ae5a65b72196bab36b261a3be63316bbf2dba5bf75e2dbbe279fa23e6bbdf75e5edfdee31deb365d76e2e3c98b5cc7decace54cef739ab44007053988051440e000a46790f4bd1e29509202038a301c880121d0a26101109bf68fe7ecfdfb57d9e9d667ea86ecfdd5af886b6c7c66bfcb89d7fc59f9667e97ada8f9d5ecd7a867e796b5dc66b8d95b98207bc8e75ecd8e8f7c8ec598789bd888d50d5ba27108e771d2931c1227310b0325340b93160f0752ac458a189003799caeb356bab3b961a25e7e2676068018505a99fe6ddbaf5fa1455a40948683120a94a49020589804192033c3ad66ed573ef6f4ffff2c6f3777ebc6fc46ddb4b4dece45bcf734b564ec7763654cc7d6c5733ee56c64433b8440e7bc4406017c36fedccdac392d1b1926c26874fde6b5f3e6355324a7490bc4801c06a46565651186a39e88c267da7b7a25db9d3a5a3348be5d77f876ae9ac8c9f59cbfcbc6ace57f8b8b7a89cad57876a88cdf8e65ca771b81f4a625da29afd732f6319ee1ff1f73a126aafedf2ba77a9d79dadde15efe6b5e211ef2b319b6756a2617a2b9a36b676e592eda210684fec88faf8857acf69f7abb8eb85e7bb9f5f97a7dde978f5e8fba781d0b1826d22492e7c12c0ac9c181c6b32ca067418b2639d0e37112044a62507a14062d9ac883819202e57116075250e2806114c4782000ec9b4571a0d47852c2229240911a8fc259144d04a26816c5b120c6820eced3441e08c8498ee5415af9ce7e38533665443fe077672bba5aea77f6a3e3fb7bb3a5a9f39e39cf92c07d6cd99d9a961c24085bde235ed7e7fedbf55adfde712daba195f2dd723dabe3e33b6737ee779b3d8a82cbec9100a801747090191baebebbaa6f7b9ba92e9e61bdf9dd6d99ab5bb355a64781acfe2bdbfb7797eda5e265b26b6b16b7d9fb3f9ef7ef5e99c26f0f89480032b3f3db563cc536f35d502049b3280e05fedade5a9af9aeb1f1653fda19a44c4eae47e9a969f6f6aab6e67678986afbad9ac9c9bf70940109143080010da0262d3080480081262d30901c12a679380f54621014c803e12447410882e7fca350579587d5a1a9f109b1d2365d077d9a1c4de67f4144afe0543378dc11949c4735a80608a6f3a05ce113054a64128a731445e1f1974b4e512ca69a522a63731312483b48b9dbbaf7fb811b926275bdf8262157437e7586683cf5e65a39c0d01c129466c8bd30cd729b4e2b2250be89d4098788ffd1300c2cfd3bef0f87ebd815b3f6c0824a455c1983b565b6e1ae2b2d2c5555a52521ec5683090def576a422e9dfaa8cea7a0acafe978b75e54fb9b156339a37686266c8520e1075f7ac631691fb5203171b930ac78305397575e19878f7c2f5823bdf538e982b3884a41f90d00e7ec77c208525f7aa1f8b1651fcb1d72ff75e3633e40791172ad90d70cf5f796545c051a685a375113d21b60836c6dd02c86fc213efccdc8cd47a0dec408958a5025a428d24f0f0d24dad276be7a30819c3c4f363876ac1318323cd3464273c933de2534f32e51e5e595ab12c2d7e45da9449a707f1af349d3bb3449ba49fc1a9ba01e90efca67a98ea5513ba22cf84b0b7d5d871c7825c5ae3ce0430f1ef60787fae6f73fb76651b09ce8802d60fa1247517a97dea4dfc88777bd794457adace003381d3113270483972c83b2da5d76e5b99d34a50eaf22654cf42ff196767536b3f79379e4dc107cb6db18539661ba1a62fa82b0f4c156c7a8f3ad26072ff6b4e94867bbc034d98f3e991726c1ed8e4f156c302926b549c52bdfe1941cecee3dddfeec030b6c4c8746fd0df74aae7d9d3063ec38d02c46a05669b2aa4b804873b3d64f13b0085f254c9f688a4c09e107a12b34da4841e507e8119e05087796212d5bdd13a77463ee835755bdd52e9cd8021ffcc9ca460f1ed2725ab58970953c06de0eb57b6e1e10da75f0aec854196db8e247033c9bb83ce2662439787c14eeabebb611b191940857bfe029bee91f2fd6e079a84f865e139fb8f803062e564ac7ce519a9440877842d45faa23cc69714708c9219e69324aba9a5dfc3426ca33ab1c90204d7372dc1b48a5c95557cc1aa43ef6f39b8b67839c44e54c14aa748c1a9510458f82be18e8c1cfbec8c9a7a8fe1d5dadd798cbe2943b2041cd554c01810cce67847d98abe017d37f9050e4ab21a5cacc150a0a33ac5802a72f6087c8e2048e6d074b1206c2db621a0872d54ce2b7200c6d87c71f48befb089cba0a35b1ee64e9f65ce6efa3940d7af12acb24f24a2c6b01ad09064a0b5741e7fb0464afe7ca71850c77c76090783aeac65b8aa9ad7ca0ddbc033fb76721e1cc6d4f9004a8484d25983405d4560d811726bd6c8f2c4feb9e8ac0efe5f2a76bc0c9271dd402a4afda9f1d6bae59cc3bc2bcb8cdc9d775fe7420b12e8addd10446d80d87c4120e2f90ea1e3633786d045eb7c94fc407d6988918c202b0113092fd46f6ac6c67dd8652e2b0c5610584e45f98f2436575f7ca5cfc8556bbef941b56ceeade6a6867937be48f9ccd602ec1324585f67d27945d33ed308723f4292d19b98d4fe1ab7454658ee944d85340bed162ba94820aee54ba95e822543a4b721a73e692de1aa4dd7e11820fbea56b8367caa87bd76b948251133342bd8653dd8d34188c422693ae6d8e986543e7858d1f81a819a830f33199ebc09c1636860472f436d03b2a2b5519cb71e33980f5433532c05d0128a698d8abb4d1631445c80eedb3f163ade38361bc5ef7b204d8e35806e021a452e6b23383407c3184fccb60ec2c8fac9e25c18eef4a108d598045d955310ec9280b6d6bb4e4f82b548285844b1dc257b77201adc712dcb34ab83d53e5df12d6f8e7ade9bf9b114069eb7d08811104fb10aec0aea4e19f6c30dc054aaa0ec85c6bf500fb9cba62128784d98bf31ded08db466d494d41013ff6b774a96a4e8a4c305ec17fb6497ccc27bfc01288088d5f56df9d4f1685b6d3a2328b2ff7eec5e0ccfcced36227c6e756488d42cb99cd9243eb639e4c98e28d72ba0d7a5aeb2ed1f4ecb484802be97ce3d713a2e498f2d6343dae921ce2a010b34d9c531b11cd2481a82649b584b6b3213d08ef323458ad5ca8ff451851710c2d505cae503eddc431cdb1ed3444f574b2a1559ba756fd17571fc0997350cd23843095518c818a2bd8c727eb3f29e3ceee94d5cc309a538fdc01fcd33f795414931b73fe8db13a669c89c28c747923b2b34c0482228b69846cd5cd27881458116b1404a9cbd167f4c981274195e841361c8b134d04175b28b13578af19b5d70538e4440585f858bd71dc6a52b47c723683b2b7e7d9e952aab3b668e23891c9c7fadbc0135dfbeaa00022cac25c51dd54219422e24b12ac72908e9173a4667a460ac176ac8f08aed573e2b584e82b99ae6f5ac28b23e3e4b38a433a77d0174c0e6de8ab078c77c7b344fb807f61b933815f388547d82745dd40d6ce240a05e02f81ea0e252f5d64c3ecd0088f90776e72955ae9be1818d1e3ddc48cc5ba55ec9911960aaab8fd9bd3839a5461ed4357f09f413ce582f23ff59d0b0c4411bd2970a52bc84c436848d67a48a5c100650ca272a2c91d205e84f58b1d4c0e21b18df5b7cc87dbb90637ef108461a906015979cf69e9e6ad7f2f347f5261a4bc79892a608613b09a579b466221384243d77987f1b1073c62851c7612c5ff0a30ef77f9a8431585269428574baf5c65b60cddbd9a7a84749ac6cf805a372c8c5c2b43c8635c5ac8a2298119f4203d44d4291d8171915fe8be6fdb4036bb5616b1d0ce84289c237a8a5bcc9b1759c125bdc551fecfcd26cd513614029738f9f3071732b406852c73d41f1e538c99dd0c73947c369c962192e472fceae0f827fe3fd58a70793ada365d6b055e6e2d45ea0f0e04098620a92b9982a88fea55995b05895ff1c65cb00b24224a412bba0c11baa8a4dbf82ca9a1685355eaaf93b8539ed419584a0935b8269156ed346491b34ef4c4bbd67f4e7e431e32635d731ac0bfd089359b30906ec2930c45f1ae5950fdd11f67ac8f4ade6f4d9e13620401254834');
INSERT INTO public.teams VALUES ('00000000-0000-7000-8000-000000000000', 'default', '2026-01-01 00:00:00+00', false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.accuracy_daily
    ADD CONSTRAINT pk_accuracy_daily PRIMARY KEY (team_id, dimension, code, day, device, model_family, training_method, stack, engine_version, label_value);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT pk_api_keys PRIMARY KEY (id);
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
CREATE INDEX ix_calibrations_team_id_created_at ON public.calibrations USING btree (team_id, created_at, id);
CREATE INDEX ix_idempotency_keys_created_at ON public.idempotency_keys USING btree (created_at);
CREATE INDEX ix_ledger_entries_project_id_created_at ON public.ledger_entries USING btree (project_id, created_at, id);
CREATE INDEX ix_measurements_quote_id_created_at ON public.measurements USING btree (quote_id, created_at, id);
CREATE INDEX ix_measurements_team_id_code_observed_at ON public.measurements USING btree (team_id, code, observed_at);
CREATE INDEX ix_projects_team_id_created_at ON public.projects USING btree (team_id, created_at, id);
CREATE INDEX ix_quote_labels_key_value_quote_id ON public.quote_labels USING btree (key, value, quote_id);
CREATE INDEX ix_quotes_supersedes_id ON public.quotes USING btree (supersedes_id);
CREATE INDEX ix_quotes_team_id_created_at ON public.quotes USING btree (team_id, created_at, id);
CREATE INDEX ix_quotes_team_id_external ON public.quotes USING btree (team_id, external_system, external_id, created_at, id);
CREATE INDEX ix_quotes_team_id_model_created_at ON public.quotes USING btree (team_id, model, created_at, id);
CREATE INDEX ix_quotes_team_id_project_created_at ON public.quotes USING btree (team_id, project, created_at, id);
CREATE UNIQUE INDEX uq_measurements_key ON public.measurements USING btree (quote_id, source, attempt, code, method, scope) WHERE (corrects_id IS NULL);
ALTER TABLE ONLY public.accuracy_daily
    ADD CONSTRAINT fk_accuracy_daily_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT fk_api_keys_team_id_teams FOREIGN KEY (team_id) REFERENCES public.teams(id);
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
