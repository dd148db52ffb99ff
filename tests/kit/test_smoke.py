from service.quotes import examples
def test_smoke(client):
    r = client.post("/v1/quotes", json=examples.SPEC); assert r.status_code == 201, r.text
    assert client.get("/readyz").status_code == 200
def test_auth(secured, make_key):
    assert secured.get("/v1/quotes").status_code == 401
    assert secured.get("/v1/quotes", headers=make_key("a", "quotes:read")).status_code == 200
