-- A state database of format 1 on sqlite, as Cobweb 0.1 made it: two runs, two generations.

CREATE TABLE cobweb_cobs (
	id TEXT NOT NULL,
	state TEXT DEFAULT 'unknown' NOT NULL,
	content TEXT DEFAULT '' NOT NULL,
	applied TEXT,
	source TEXT,
	dest TEXT,
	since DOUBLE DEFAULT '0' NOT NULL,
	run TEXT DEFAULT '' NOT NULL,
	generation BIGINT DEFAULT '0' NOT NULL,
	failed BOOLEAN DEFAULT 0 NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (id)
)
 WITHOUT ROWID;
INSERT INTO cobweb_cobs (id, state, content, applied, source, dest, since, run, generation, failed, reason)
 VALUES ('h1/a', 'up', '98f021897d48efffcb1ba6ead508bedd425a3967e7e7cf78a334af5b96585a11', '{"port":1}', NULL, NULL, 1.0, '20261121-143204-12ef', 1, 0, 'transition');
INSERT INTO cobweb_cobs (id, state, content, applied, source, dest, since, run, generation, failed, reason)
 VALUES ('h2/a', 'up', '98f021897d48efffcb1ba6ead508bedd425a3967e7e7cf78a334af5b96585a11', '{"port":1}', NULL, NULL, 1.0, '20261121-143204-12ef', 1, 0, 'transition');
INSERT INTO cobweb_cobs (id, state, content, applied, source, dest, since, run, generation, failed, reason)
 VALUES ('h2/b', 'up', 'ae1b6d511688379967a429ed65b9696b0acfe38782cb1cc7d8b68435fe8f9c24', '{"port":2}', NULL, NULL, 1.0, '20261121-143205-43a6', 2, 0, 'transition');
CREATE TABLE cobweb_events (
	run INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	time DOUBLE DEFAULT '0' NOT NULL,
	type TEXT DEFAULT '' NOT NULL,
	data TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (run, seq)
)
 WITHOUT ROWID;
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 1, 0.0, 'version', '{"events":1,"cobweb":"0.1.0"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 2, 0.0, 'run.start', '{"run":"20261121-143204-12ef","generation":1,"hosts":2,"cobs":3}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 3, 0.0, 'cob.state', '{"cob":"h1/a","state":"down","reason":"check"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 4, 0.0, 'cob.state', '{"cob":"h2/a","state":"down","reason":"check"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 5, 0.0, 'cob.state', '{"cob":"h2/b","state":"down","reason":"check"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 6, 0.0, 'lock.request', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 7, 0.0, 'transition.start', '{"cob":"h2/a","from":"down","to":"up","locks":[]}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 8, 0.0, 'transition.start', '{"cob":"h1/a","from":"down","to":"up","locks":[]}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 9, 1.0, 'transition.end', '{"cob":"h1/a","from":"down","to":"up","state":"up","result":"ok","attempt":1,"seconds":1.0}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 10, 1.0, 'cob.state', '{"cob":"h1/a","state":"up","reason":"transition"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 11, 1.0, 'transition.end', '{"cob":"h2/a","from":"down","to":"up","state":"up","result":"ok","attempt":1,"seconds":1.0}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 12, 1.0, 'cob.state', '{"cob":"h2/a","state":"up","reason":"transition"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 13, 1.0, 'lock.grant', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 14, 1.0, 'transition.start', '{"cob":"h2/b","from":"down","to":"up","locks":[{"cob":"h2/a","state":"up"}]}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 15, 2.0, 'transition.end', '{"cob":"h2/b","from":"down","to":"up","state":"up","result":"ok","attempt":1,"seconds":1.0}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 16, 2.0, 'cob.state', '{"cob":"h2/b","state":"up","reason":"transition"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 17, 2.0, 'lock.release', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (1, 18, 2.0, 'run.end', '{"result":"ok","exit_code":0,"counts":{"hosts":2,"cobs":3,"settled":3,"checks":3,"transitions":3,"failed":0,"waiting":0}}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 1, 0.0, 'version', '{"events":1,"cobweb":"0.1.0"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 2, 0.0, 'run.start', '{"run":"20261121-143205-43a6","generation":2,"hosts":2,"cobs":3}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 3, 0.0, 'cob.state', '{"cob":"h2/b","state":"unknown","reason":"content"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 4, 0.0, 'cob.state', '{"cob":"h1/a","state":"up","reason":"journal"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 5, 0.0, 'cob.state', '{"cob":"h2/a","state":"up","reason":"journal"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 6, 0.0, 'cob.state', '{"cob":"h2/b","state":"down","reason":"check"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 7, 0.0, 'lock.request', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 8, 0.0, 'lock.grant', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 9, 0.0, 'transition.start', '{"cob":"h2/b","from":"down","to":"up","locks":[{"cob":"h2/a","state":"up"}]}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 10, 1.0, 'transition.end', '{"cob":"h2/b","from":"down","to":"up","state":"up","result":"ok","attempt":1,"seconds":1.0}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 11, 1.0, 'cob.state', '{"cob":"h2/b","state":"up","reason":"transition"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 12, 1.0, 'lock.release', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 13, 1.0, 'run.end', '{"result":"ok","exit_code":0,"counts":{"hosts":2,"cobs":3,"settled":3,"checks":1,"transitions":1,"failed":0,"waiting":0}}');
CREATE TABLE cobweb_generations (
	id INTEGER NOT NULL,
	digest TEXT NOT NULL,
	parent BIGINT DEFAULT '0' NOT NULL,
	author TEXT DEFAULT '' NOT NULL,
	time DOUBLE DEFAULT '0' NOT NULL,
	message TEXT DEFAULT '' NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO cobweb_generations (id, digest, parent, author, time, message, content)
 VALUES (1, 'bca7be4b71351abf9667e8d8ca04f7103c478ba8c9aa051aaf8171ed292e214d', 0, 'ann', 1795271524.2127247, '', X'78019d515d6bc3300cfc2f7a1c61a37bcc5f29a53889ba98c61f384a4b09feef3b7909645b075d9f7cb6a4d3dd79a6363423d533f5bb37a3e718b9d533862454ef7245728b4c358dd6c581090ffdfb7f5a9b8758417b0ac919dd890d619445954e7fa43045dcf734f982b9a343451793ac6906d6ce5c743ddc8ceec13aab4bf660f2cc9dc259e380d7e2108a5270b8bd5045c17f3d37c0a318d144ba70f5b84a5871ae3604da7987c06c08a6b88e0365e8d0a8d5cd1a3650db737bd62731e3193594846b79bdb941ffa2948f621d87498ea8fb69182a8a894f9c1272aaa96c49ecc26523ba7850cb84b90e7e3a48590c6140b524e3b1cb06af6d339956f1df4a8c08bba889e20317e36b423fe595c8d433027b86b758fa65fafb473cc3bbc9e23ebb6a3ee49c3f018c530dbf');
INSERT INTO cobweb_generations (id, digest, parent, author, time, message, content)
 VALUES (2, '5124b83889e32da03be0714411e818d6c53ce274cd65bb1d2a87de42e0cc86d0', 1, 'ann', 1795271525.484869, 'second ü', X'78019d51cb6ac3400cfc171d8b69498efe9510c2da566a937db1965382d97fef686b83dba4d0e6b45a3d4633a399dad08c54cfd4efde8cbe63e456df189250bdcb15c92d32d5340e2e5a2624fafd7f5a9b7bd4fd3d2a32e7909cd19dd810465958e9f47b0a53c4ff40932f317774ace86ad2601acbda990baf3f37a3db0e6ed025072079e64ec359ed80d6a2108c5270f8bd5045c17fa51bc4a3185147baf0e1f195b0c6b9da0068e70300b30198e23a8e2883875aad6a56b311b53db7174d89192fa8a1245ccbebcd59bd45299f64701c2639a1ee276b2b8a89cf9c127caaa96c49ecc27543ba6850c984b90e7a3a5059046140b924e3b16b085edb6632adc6bf333122eca23a8a032ec257877ed22b96a96618f60c6e917427fafb219ec1dd78f1185d391f73ce9f8f150dc0');
CREATE TABLE cobweb_grants (
	cob TEXT NOT NULL,
	holder TEXT NOT NULL,
	state TEXT NOT NULL,
	PRIMARY KEY (cob, holder)
)
 WITHOUT ROWID;
CREATE INDEX cobweb_grants_holder ON cobweb_grants (holder);
CREATE TABLE cobweb_hosts (
	name TEXT NOT NULL,
	reachable BOOLEAN DEFAULT 1 NOT NULL,
	since DOUBLE DEFAULT '0' NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE cobweb_meta (
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);
INSERT INTO cobweb_meta ("key", value)
 VALUES ('format', '1');
CREATE TABLE cobweb_runs (
	number INTEGER NOT NULL,
	id TEXT NOT NULL,
	command TEXT DEFAULT '' NOT NULL,
	started DOUBLE DEFAULT '0' NOT NULL,
	user TEXT DEFAULT '' NOT NULL,
	host TEXT DEFAULT '' NOT NULL,
	pid BIGINT DEFAULT '0' NOT NULL,
	site TEXT DEFAULT '' NOT NULL,
	generation BIGINT DEFAULT '0' NOT NULL,
	result TEXT,
	exit_code INTEGER,
	counts TEXT,
	waits TEXT,
	ended DOUBLE,
	PRIMARY KEY (number),
	UNIQUE (id)
);
INSERT INTO cobweb_runs (number, id, command, started, user, host, pid, site, generation, result, exit_code, counts, waits, ended)
 VALUES (1, '20261121-143204-12ef', 'apply --executor simulate', 1795271524.2127247, 'ann', 'admin1', 1303, 'bca7be4b71351abf9667e8d8ca04f7103c478ba8c9aa051aaf8171ed292e214d', 1, 'ok', 0, '{"hosts":2,"cobs":3,"settled":3,"checks":3,"transitions":3,"failed":0,"waiting":0}', '[]', 1795271524.2389026);
INSERT INTO cobweb_runs (number, id, command, started, user, host, pid, site, generation, result, exit_code, counts, waits, ended)
 VALUES (2, '20261121-143205-43a6', 'apply --executor simulate', 1795271525.484869, 'ann', 'admin1', 1306, '5124b83889e32da03be0714411e818d6c53ce274cd65bb1d2a87de42e0cc86d0', 2, 'ok', 0, '{"hosts":2,"cobs":3,"settled":3,"checks":1,"transitions":1,"failed":0,"waiting":0}', '[]', 1795271525.5115285);
CREATE TABLE cobweb_site_lock (
	id INTEGER NOT NULL,
	run TEXT NOT NULL,
	user TEXT DEFAULT '' NOT NULL,
	host TEXT DEFAULT '' NOT NULL,
	pid BIGINT DEFAULT '0' NOT NULL,
	process_start TEXT DEFAULT '' NOT NULL,
	boot_id TEXT DEFAULT '' NOT NULL,
	machine_id TEXT DEFAULT '' NOT NULL,
	pid_space TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	since DOUBLE DEFAULT '0' NOT NULL,
	heartbeat DOUBLE DEFAULT '0' NOT NULL,
	until DOUBLE,
	PRIMARY KEY (id)
);
