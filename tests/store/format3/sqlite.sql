-- A state database of format 3 on sqlite, as Cobweb 0.1 made it: two runs, two generations, and a
-- third run that was killed in a transition.

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
	attempt BIGINT DEFAULT '0' NOT NULL,
	executor TEXT DEFAULT '' NOT NULL,
	known TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (id)
)
 WITHOUT ROWID;
INSERT INTO cobweb_cobs (id, state, content, applied, source, dest, since, run, generation, failed, reason, attempt, executor, known)
 VALUES ('h1/a', 'up', 'c9e37d3c3a03e83723f342138482932ed832d74d91e6ec6f38db37f65f3926c0', '{"port":1}', NULL, NULL, 1.0, '20261122-174823-5579', 1, 0, 'transition', 1, 'simulate', 'up');
INSERT INTO cobweb_cobs (id, state, content, applied, source, dest, since, run, generation, failed, reason, attempt, executor, known)
 VALUES ('h2/a', 'up', 'c9e37d3c3a03e83723f342138482932ed832d74d91e6ec6f38db37f65f3926c0', '{"port":1}', 'up', 'down', 1.0, '20261122-175000-5ab1', 1, 0, 'transition', 2, 'ansible', 'up');
INSERT INTO cobweb_cobs (id, state, content, applied, source, dest, since, run, generation, failed, reason, attempt, executor, known)
 VALUES ('h2/b', 'unknown', 'b65879f436736f1d2b42df2ec3111fc99c81285db020d85294e76a89e177ad59', '{"port":2}', NULL, NULL, 1795369765.2560284, '20261122-175000-5ab1', 2, 1, 'transition', 1, 'simulate', 'up');
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
 VALUES (1, 2, 0.0, 'run.start', '{"run":"20261122-174823-5579","generation":1,"hosts":2,"cobs":3}');
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
 VALUES (2, 2, 0.0, 'run.start', '{"run":"20261122-174824-61cc","generation":2,"hosts":2,"cobs":3}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 3, 0.0, 'generation.switch', '{"hosts":["h1","h2"],"generation":2}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 4, 0.0, 'cob.state', '{"cob":"h2/b","state":"unknown","reason":"content"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 5, 0.0, 'cob.state', '{"cob":"h1/a","state":"up","reason":"journal"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 6, 0.0, 'cob.state', '{"cob":"h2/a","state":"up","reason":"journal"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 7, 0.0, 'cob.state', '{"cob":"h2/b","state":"outdated","reason":"check"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 8, 0.0, 'lock.request', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 9, 0.0, 'lock.grant', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 10, 0.0, 'transition.start', '{"cob":"h2/b","from":"outdated","to":"up","locks":[{"cob":"h2/a","state":"up"}]}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 11, 1.0, 'transition.end', '{"cob":"h2/b","from":"outdated","to":"up","state":"up","result":"ok","attempt":1,"seconds":1.0}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 12, 1.0, 'cob.state', '{"cob":"h2/b","state":"up","reason":"transition"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 13, 1.0, 'lock.release', '{"cob":"h2/a","holder":"h2/b","state":"up"}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (2, 14, 1.0, 'run.end', '{"result":"ok","exit_code":0,"counts":{"hosts":2,"cobs":3,"settled":3,"checks":1,"transitions":1,"failed":0,"waiting":0}}');
INSERT INTO cobweb_events (run, seq, time, type, data)
 VALUES (3, 1, 0.0, 'run.start', '{"run":"20261122-175000-5ab1","generation":2,"hosts":2,"cobs":3}');
CREATE TABLE cobweb_files (
	digest TEXT NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (digest)
);
INSERT INTO cobweb_files (digest, content)
 VALUES ('37517e5f3dc66819f61f5a7bb8ace1921282415f10551d2defa5c3eb0985b570', X'78018b8ee5020001d800c3');
CREATE TABLE cobweb_generations (
	id INTEGER NOT NULL,
	digest TEXT NOT NULL,
	parent BIGINT DEFAULT '0' NOT NULL,
	author TEXT DEFAULT '' NOT NULL,
	time DOUBLE DEFAULT '0' NOT NULL,
	message TEXT DEFAULT '' NOT NULL,
	content BLOB NOT NULL,
	"commit" TEXT DEFAULT '' NOT NULL,
	reached DOUBLE,
	PRIMARY KEY (id)
);
INSERT INTO cobweb_generations (id, digest, parent, author, time, message, content, "commit", reached)
 VALUES (1, '153a7e57b1ef9f7a8cbea721c6834d1cd1506e8309cc6e66e664d7b7f52daf0f', 0, 'ann', 1795369703.3597288, 'first', X'7801ad52db6edb300cfd173e0e461739752efe95a20864996a84da9220cb298ac0ffbe4321e9b2b54387a24fa644faf05c742613ba89da331dd54f2ddf29b2916f0c2953ab968af26b646a49c748381debff9eeb3ec703a009deba34621607eb062e742697b9cd77afe380d5eb6da3b6dcd8756f369b9ddadb8db28dde76dd4e1b56fb5ad5bbfa5e3556ad9a46f575cf563766cddd6abf6bba66bb12de36a45143510d0961ca17cdc2f0298539e2fc40b32f35f7f458d14927a7bb0b1ded2787fa00b29e4d76c183d6108c1e6801f8b1fe1620200d6e7442ee010c3c732fe55942c2be623d94a400b7e807555468e0ba433d659d25a73ebc781c73b8d64b750320931f00e81b80395e7f47b580873c80e2973c0118668e6c9ea5c87a7a46836ec28284d23e64377298f3017d3f0f830430f49c300df498d8724a30baa5b20e175127a18f6ee2319c6ea4243eb13c46e94d9c4ece3f95b4842756f4d05d122b0e8861bf6fabab1dd8224a920429f1c9d899f425ca7f49d139f318250ff566dbd5dfbff515c3c531d8fd15dce2c33bd7fe8cf12bb86f0e41fe7773fe14bb98b53c2ecbf20ba4386f32', '', 1795369703.3844569);
INSERT INTO cobweb_generations (id, digest, parent, author, time, message, content, "commit", reached)
 VALUES (2, '0337d277a33d5a85015fcd6454612c3612bd333aec0d54a997cc5a09565d3460', 1, 'ann', 1795369704.2043123, 'second ü', X'7801ad52db6edb300cfd173e0ec61639532efe95a20864996e84da9220cb198ac0ffbe432169d31b36147d3225d287e7a233d9d04ed49ce9a87e19f94e91ad7c6348991ab554949f2253432646c2e958fff75cfb1eaf7e8387a30dbe7769c42c0ebd1bb8d0995ce626ff7c1a07ac5e6fb5dab2eed79ddd6c766adf6f54afcdb66d77c6b2dad7aaded5bf95eed54a6bd5d51df746db35b7abfd4eb77abb12de7d48a381a21a12c2942f9a85e1430a73c4f98e665f6aeee8bea29349ceb4173ac64f0ef501643ddbec8207ad215833d002f063fd2d40401adce884dc1d1878e64ecab384847dc57a2849016ed10faaa8d0c0758b7aca264b4e5df8e371cce15a2fd50d804c7e00606e00e678fd1dd5021ef2008a5ff20460983db27d94229be9110dba090b124afb90ddc861ce07f4fd3c0c12c0d071c234d063e29e5382d10d9575b88826097d74138fe1742325f189e5314a6fe27472fea1a4253cb1a283ee925871400c7bb9adae76608b284912a4c42763673297283f936272e6314a1eead9b6abbf6ff515c3c531d8fd15dce2c33bd75ec7f815dc678720ffbb39ff13bb98b5dc2fcbf217a8326f33', '', 1795369704.2545018);
CREATE TABLE cobweb_grants (
	cob TEXT NOT NULL,
	holder TEXT NOT NULL,
	state TEXT NOT NULL,
	PRIMARY KEY (cob, holder)
)
 WITHOUT ROWID;
CREATE INDEX cobweb_grants_holder ON cobweb_grants (holder);
INSERT INTO cobweb_grants (cob, holder, state)
 VALUES ('h2/a', 'h2/b', 'up');
CREATE TABLE cobweb_hosts (
	name TEXT NOT NULL,
	reachable BOOLEAN DEFAULT 1 NOT NULL,
	since DOUBLE DEFAULT '0' NOT NULL,
	generation BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO cobweb_hosts (name, reachable, since, generation)
 VALUES ('h1', 0, 1795369765.2560284, 2);
INSERT INTO cobweb_hosts (name, reachable, since, generation)
 VALUES ('h2', 1, 0.0, 2);
CREATE TABLE cobweb_meta (
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);
INSERT INTO cobweb_meta ("key", value)
 VALUES ('format', '3');
CREATE TABLE cobweb_results (
	host TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (host, "key")
)
 WITHOUT ROWID;
INSERT INTO cobweb_results (host, "key", value)
 VALUES ('h2', 'address', '"10.0.0.2"');
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
 VALUES (1, '20261122-174823-5579', 'apply --executor simulate', 1795369703.3597288, 'ann', 'admin1', 2416, '153a7e57b1ef9f7a8cbea721c6834d1cd1506e8309cc6e66e664d7b7f52daf0f', 1, 'ok', 0, '{"hosts":2,"cobs":3,"settled":3,"checks":3,"transitions":3,"failed":0,"waiting":0}', '[]', 1795369703.3854609);
INSERT INTO cobweb_runs (number, id, command, started, user, host, pid, site, generation, result, exit_code, counts, waits, ended)
 VALUES (2, '20261122-174824-61cc', 'apply --executor simulate', 1795369704.2043123, 'ann', 'admin1', 2429, '0337d277a33d5a85015fcd6454612c3612bd333aec0d54a997cc5a09565d3460', 2, 'ok', 0, '{"hosts":2,"cobs":3,"settled":3,"checks":1,"transitions":1,"failed":0,"waiting":0}', '[]', 1795369704.2560284);
INSERT INTO cobweb_runs (number, id, command, started, user, host, pid, site, generation, result, exit_code, counts, waits, ended)
 VALUES (3, '20261122-175000-5ab1', 'apply', 1795369764.2560284, 'ann', 'admin1', 1400, '0337d277a33d5a85015fcd6454612c3612bd333aec0d54a997cc5a09565d3460', 2, NULL, NULL, NULL, NULL, NULL);
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
