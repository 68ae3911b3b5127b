\i sql/setup.sql
-- Certificates: kept once, and every byte of a vote counts. The votes are those that
--   cargo run -p chainify-ledger --example certificate -- testchain 1 HASH acme beta gamma
-- prints; HASH, shown below, depends on nothing but the formats.
\set validators '[{"address":"ada484727d108e7b9db626883bcc170f743fb83d","organisation":"acme","public_key":"75bb1db8209aeda3cefce642203a99c7737c5062cf4abee7c301d87f802c1e7a"},{"address":"3ed85c4c20807a47fda3add4dfb3a35fd98d8b60","organisation":"beta","public_key":"625f58947b9fb9162c0907a07427ee261edce4d4a5b0c2c975287f42c61041b9"},{"address":"258d61f5ad255a74518bcad980076fbf29d79f5d","organisation":"gamma","public_key":"4e1aaa853b378b861b25a3cac2630aa398ce4bc709cd580bd20c66de5fd3673c"}]'
\set votes '[{"extension":"01000000000000000100000000050505050505050505050505050505050505050505050505050505050505050501f7062eae1abe4ec6054400e9dbafd55e4c5f9d84002aee96a61c7f8d713df1fc","height":12,"organisation":"acme","round":0,"signature":"968f201219c08eeaeff4a9054553f883daa5f807eaa6ad5728279f9f7c6c19a665d9e52aaaf14139f2a7c16a50111d5568648436708671b212ea4cc8e34ab809","validator":"ada484727d108e7b9db626883bcc170f743fb83d"},{"extension":"010000000000000001000000000505050505050505050505050505050505050505050505050505050505050505015a70d46a47cc571396ee1cd0103435f7f1c3b2d32c7184dc95045055fee946a0","height":12,"organisation":"beta","round":0,"signature":"965bb9a01527b1890f7cd74157c0f0792bf8aa108eb28b474c753bfefd8b4c28ed5bd7ee32952acda60ea3828845d7b3f2435c295bd0193415e669b9f99a2507","validator":"3ed85c4c20807a47fda3add4dfb3a35fd98d8b60"},{"extension":"01000000000000000100000000050505050505050505050505050505050505050505050505050505050505050501433c416789d63a4309c0efa011ce36fd3689f88351d144429505662854d9f59f","height":12,"organisation":"gamma","round":0,"signature":"4b66d6dd56724e1ea0e85af5f58f9d663faca251bc8e47e7a1326b2cef5b01f3a4a21c900694a0a52d08c69f87018d4203fadf2d10084ab4a2e768b8aa649104","validator":"258d61f5ad255a74518bcad980076fbf29d79f5d"}]'
SELECT ok FROM test.run('SELECT 1');
SELECT encode(hash, 'hex') AS hash FROM chainify_ledger.block;
SELECT chainify_node.init('testchain', 'acme', :'validators');
CREATE FUNCTION test.certify(number bigint, votes jsonb) RETURNS void LANGUAGE sql AS $$
    SELECT chainify_node.store_certificate(b.number, 0, b.hash, votes) FROM chainify_ledger.block b WHERE b.number = certify.number $$;
-- What verification says after a change to the certificate of block 1; the change is undone.
CREATE FUNCTION test.found(change text) RETURNS TABLE (finding text) LANGUAGE plpgsql AS $$
DECLARE
    found text[];
BEGIN
    BEGIN
        EXECUTE change;
        SELECT array_agg(concat_ws(' | ', 'block ' || block, what, regexp_replace(detail, '[0-9a-f]{64}', '…', 'g'))) INTO found
        FROM chainify.verify_ledger();
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT unnest(found);
    END;
END
$$;
-- One character of a field of a vote.
CREATE FUNCTION test.forge(vote int, field text, at int) RETURNS text LANGUAGE sql AS $$
    SELECT format($f$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{%1$s,%2$s}',
        to_jsonb(overlay(votes -> %1$s ->> %2$L PLACING CASE substr(votes -> %1$s ->> %2$L, %3$s, 1) WHEN '0' THEN '1' ELSE '0' END FROM %3$s)))$f$,
        vote, field, at) $$;

SELECT * FROM chainify.verify_ledger();
SELECT number, certified FROM chainify.ledger;
SELECT test.certify(1, :'votes');
SELECT test.certify(1, '[]'); -- the first one stays
SELECT jsonb_array_length(votes) FROM chainify_ledger.certificate;
SELECT number, certified FROM chainify.ledger;
SELECT certified FROM chainify_node.position();
SELECT * FROM chainify.verify_ledger();
SELECT ok FROM test.run('SELECT 2');
SELECT * FROM chainify.verify_ledger();

SELECT * FROM test.found(test.forge(1, 'signature', 7));
SELECT * FROM test.found(test.forge(1, 'signature', 128));
SELECT * FROM test.found(test.forge(1, 'extension', 2));
SELECT * FROM test.found(test.forge(1, 'extension', 18));
SELECT * FROM test.found(test.forge(1, 'extension', 26));
SELECT * FROM test.found(test.forge(1, 'extension', 27));
SELECT * FROM test.found(test.forge(1, 'extension', 92));
SELECT * FROM test.found(test.forge(1, 'extension', 156));
SELECT * FROM test.found(test.forge(1, 'validator', 1));
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1,organisation}', '"acme"')$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1,height}', '13')$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1,round}', '1')$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1}', votes -> 0)$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = votes - 2$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1,signature}', '"zz"')$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = jsonb_set(votes, '{1,height}', '"x"')$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET votes = '{}'$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET effect_round = 1$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET hash = set_byte(hash, 9, get_byte(hash, 9) # 1)$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET number = 2$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.certificate SET number = 9$$);
SELECT * FROM test.found($$DELETE FROM chainify_ledger.certificate$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.validator SET public_key = set_byte(public_key, 0, get_byte(public_key, 0) # 1) WHERE organisation = 'beta'$$);

-- Fewer organisations suffice where the chain says so.
SELECT * FROM test.found($$SELECT chainify_node.init('testchain', 'acme', (SELECT jsonb_agg(jsonb_build_object('organisation', organisation,
    'address', encode(address, 'hex'), 'public_key', encode(public_key, 'hex'))) FROM chainify_ledger.validator), 2);
    UPDATE chainify_ledger.certificate SET votes = votes - 2$$);

-- What is not kept.
SELECT chainify_node.store_certificate(2, 0, '\x00', '[]');
SELECT chainify_node.store_certificate(3, 0, '\x00', '[]');
SELECT test.certify(2, '{}');
SELECT test.certify(2, '[{"organisation": "acme"}]');
SET ROLE alice;
SELECT chainify_node.store_certificate(2, 0, '\x00', '[]');
RESET ROLE;

-- c and keys by block: what was enough before a change is no finding after it, and the other way round
\set registry '{"organisations": [{"name": "acme", "gateway_key": "0a", "ordering_only": false, "from_block": 1, "until_block": 2}, {"name": "acme", "gateway_key": "0b", "ordering_only": false, "from_block": 2}, {"name": "notary", "gateway_key": "0c", "ordering_only": true, "from_block": 2, "until_block": 9}]}'
CREATE FUNCTION test.tell(registry jsonb, consents jsonb, validators jsonb, period jsonb) RETURNS void LANGUAGE sql AS $$
    SELECT chainify_node.set_registry(registry || jsonb_build_object('consents', consents,
        'validators', (SELECT jsonb_agg(v || period || CASE WHEN v ->> 'organisation' = 'acme' THEN '{}' ELSE '{"until_block": null}'::jsonb END)
                       FROM jsonb_array_elements(validators) v))) $$;
SELECT test.tell(:'registry', '[{"from_block": 1, "consent": 4}]', :'validators', '{"from_block": 1}');
SELECT * FROM chainify.verify_ledger() WHERE what = 'certificate';
SELECT test.tell(:'registry', '[{"from_block": 1, "consent": 1}, {"from_block": 1000, "consent": 4}]', :'validators', '{"from_block": 1}');
SELECT * FROM chainify.verify_ledger() WHERE what = 'certificate';
SELECT test.tell(:'registry', '[{"from_block": 1, "consent": 2}]', :'validators', '{"from_block": 1, "until_block": 2}');
SELECT * FROM chainify.verify_ledger() WHERE what = 'certificate';
SELECT test.tell(:'registry', '[{"from_block": 1, "consent": 2}]', :'validators', '{"from_block": 1, "until_block": 1}');
SELECT * FROM chainify.verify_ledger() WHERE what = 'certificate';
SELECT test.tell(:'registry', '[{"from_block": 1, "consent": 3}]', :'validators', '{"from_block": 2}');
SELECT * FROM chainify.verify_ledger() WHERE what = 'certificate';
SELECT name, since_block, until_block, ordering_only, gateway_key, cardinality(validator_keys) AS validators FROM chainify.organisations ORDER BY name, since_block;
SET ROLE alice;
SELECT chainify_node.set_registry('{}');
RESET ROLE;
