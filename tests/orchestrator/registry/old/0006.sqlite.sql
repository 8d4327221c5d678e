BEGIN TRANSACTION;
CREATE TABLE attempts (
	attempt_id VARCHAR(80) NOT NULL, 
	trial_id VARCHAR(80) NOT NULL, 
	number INTEGER NOT NULL, 
	device VARCHAR(200) NOT NULL, 
	token INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	state VARCHAR(80) NOT NULL, 
	started_at DOUBLE NOT NULL, 
	ended_at DOUBLE, 
	failure_kind VARCHAR(80), 
	failure_message TEXT, 
	log_tail TEXT NOT NULL, 
	charged BOOLEAN NOT NULL, 
	cancel_requested BOOLEAN NOT NULL, 
	wall_s DOUBLE NOT NULL, 
	connection_losses INTEGER NOT NULL, 
	CONSTRAINT pk_attempts PRIMARY KEY (attempt_id), 
	CONSTRAINT fk_attempts_device_devices FOREIGN KEY(device) REFERENCES devices (name), 
	CONSTRAINT fk_attempts_trial_id_trials FOREIGN KEY(trial_id) REFERENCES trials (trial_id), 
	CONSTRAINT uq_attempts_trial_id_number UNIQUE (trial_id, number)
);
INSERT INTO "attempts" VALUES('done-1-1d682f','done',1,'oneplus12',1,'me','done',1.7961381013059945107e+09,1.79613810131001758576e+09,NULL,NULL,'',0,0,2.5,0);
INSERT INTO "attempts" VALUES('failed-1-9336ac','failed',1,'oneplus12',2,'me','failed',1.79613810132200717919e+09,1.79613810132401895526e+09,'engine_error','went engine_error','the log',1,0,0.0,0);
INSERT INTO "attempts" VALUES('running-1-f16610','running',1,'oneplus12',3,'another-host/1/2','running',1.7961381014590010643e+09,NULL,NULL,NULL,'',0,0,0.0,0);
CREATE TABLE calibrations (
	device VARCHAR(200) NOT NULL, 
	"key" VARCHAR(80) NOT NULL, 
	made_at DOUBLE NOT NULL, 
	costs JSON NOT NULL, 
	CONSTRAINT pk_calibrations PRIMARY KEY (device, "key"), 
	CONSTRAINT fk_calibrations_device_devices FOREIGN KEY(device) REFERENCES devices (name)
);
INSERT INTO "calibrations" VALUES('oneplus12','key',1.79613810147099041934e+09,'{"threads": 2}');
CREATE TABLE devices (
	name VARCHAR(200) NOT NULL, 
	address TEXT NOT NULL, 
	kind VARCHAR(80) NOT NULL, 
	host TEXT NOT NULL, 
	serial TEXT NOT NULL, 
	root TEXT NOT NULL, 
	state VARCHAR(80) NOT NULL, 
	state_reason TEXT NOT NULL, 
	facts JSON NOT NULL, 
	tags JSON NOT NULL, 
	trusted_since DOUBLE NOT NULL, state_since DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_devices PRIMARY KEY (name)
);
INSERT INTO "devices" VALUES('oneplus12','tcp:127.0.0.1:873','virtual','here','serial-oneplus12','/data/local/tmp/lever','ready','','{"soc": "SM8650", "ram_mb": 16000}','[]',0.0,1796138101.24999);
INSERT INTO "devices" VALUES('pixel8','tcp:127.0.0.1:602','virtual','here','serial-pixel8','/data/local/tmp/lever','quarantined','3 failures in a row: unreachable','{"soc": "SM8650", "ram_mb": 16000}','["bench"]',0.0,1.79613810146499586111e+09);
CREATE TABLE events (
	event_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DOUBLE NOT NULL, 
	kind VARCHAR(80) NOT NULL, 
	sweep_id VARCHAR(80), 
	trial_id VARCHAR(80), 
	attempt_id VARCHAR(80), 
	device VARCHAR(200), 
	data JSON NOT NULL
);
INSERT INTO "events" VALUES(1,1.79613810125099563601e+09,'device_state',NULL,NULL,NULL,'oneplus12','{"state": "ready", "reason": ""}');
INSERT INTO "events" VALUES(2,1.79613810126201963422e+09,'device_state',NULL,NULL,NULL,'pixel8','{"state": "ready", "reason": ""}');
INSERT INTO "events" VALUES(3,1.79613810127899789807e+09,'sweep_submitted','id-friday',NULL,NULL,NULL,'{"name": "friday", "queued": 4, "reused": 0, "in_progress": 0}');
INSERT INTO "events" VALUES(4,1.79613810128801012037e+09,'sweep_submitted','id-other',NULL,NULL,NULL,'{"name": "other", "queued": 1, "reused": 0, "in_progress": 1}');
INSERT INTO "events" VALUES(5,1.79613810129400491713e+09,'sweep_submitted','id-dropped',NULL,NULL,NULL,'{"name": "dropped", "queued": 1, "reused": 0, "in_progress": 0}');
INSERT INTO "events" VALUES(6,1.79613810130700016025e+09,'attempt_started',NULL,'done','done-1-1d682f','oneplus12','{"number": 1, "owner": "me"}');
INSERT INTO "events" VALUES(7,1.79613810131198906898e+09,'attempt_finished',NULL,'done','done-1-1d682f','oneplus12','{"state": "done", "failure_kind": null, "failure_message": "", "charged": false, "attempt_wall_s": 2.5, "connection_losses": 0, "trial_state": "done"}');
INSERT INTO "events" VALUES(8,1.79613810131198906898e+09,'trial_done',NULL,'done','done-1-1d682f','oneplus12','{"state": "done", "failure_kind": null, "failure_message": "", "charged": false, "attempt_wall_s": 2.5, "connection_losses": 0, "trial_state": "done"}');
INSERT INTO "events" VALUES(9,1.79613810132301306727e+09,'attempt_started',NULL,'failed','failed-1-9336ac','oneplus12','{"number": 1, "owner": "me"}');
INSERT INTO "events" VALUES(10,1.79613810132599020005e+09,'attempt_finished',NULL,'failed','failed-1-9336ac','oneplus12','{"state": "failed", "failure_kind": "engine_error", "failure_message": "went engine_error", "charged": true, "attempt_wall_s": 0.0, "connection_losses": 0, "trial_state": "failed"}');
INSERT INTO "events" VALUES(11,1.79613810132599020005e+09,'trial_failed',NULL,'failed','failed-1-9336ac','oneplus12','{"state": "failed", "failure_kind": "engine_error", "failure_message": "went engine_error", "charged": true, "attempt_wall_s": 0.0, "connection_losses": 0, "trial_state": "failed"}');
INSERT INTO "events" VALUES(12,1.79613810133198499681e+09,'trial_derived',NULL,'done',NULL,NULL,'{"tags": {"exactness": "exact 3/3, ties 0"}}');
INSERT INTO "events" VALUES(13,1.79613810135298681254e+09,'sweep_cancelled','id-dropped',NULL,NULL,NULL,'{"waiting": 1, "running": 0}');
INSERT INTO "events" VALUES(14,1.79613810135600423818e+09,'sweep_finished','id-dropped',NULL,NULL,NULL,'{}');
INSERT INTO "events" VALUES(15,1.79613810146000671386e+09,'attempt_started',NULL,'running','running-1-f16610','oneplus12','{"number": 1, "owner": "another-host/1/2"}');
INSERT INTO "events" VALUES(16,1.79613810146801328657e+09,'device_state',NULL,NULL,NULL,'pixel8','{"state": "quarantined", "reason": "3 failures in a row: unreachable"}');
CREATE TABLE "leases" (
	device VARCHAR(200) NOT NULL, 
	token INTEGER NOT NULL, 
	attempt_id VARCHAR(80), 
	owner TEXT NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	ttl_s DOUBLE DEFAULT '0' NOT NULL, 
	"exclusive" BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (device), 
	CONSTRAINT uq_leases_attempt_id UNIQUE (attempt_id), 
	CONSTRAINT fk_leases_device_devices FOREIGN KEY(device) REFERENCES devices (name)
);
INSERT INTO "leases" VALUES('oneplus12',3,'running-1-f16610','another-host/1/2',1764586000.0,60.0,0);
INSERT INTO "leases" VALUES('pixel8',0,NULL,'',0.0,0.0,0);
CREATE TABLE lever_schema_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT lever_schema_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "lever_schema_version" VALUES('0006');
CREATE TABLE outbox (
	item_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	kind VARCHAR(80) NOT NULL, 
	sweep_id VARCHAR(80) NOT NULL, 
	trial_id VARCHAR(80), 
	payload JSON NOT NULL
);
INSERT INTO "outbox" VALUES(3,'sweep','id-dropped',NULL,'{"event": "submitted"}');
INSERT INTO "outbox" VALUES(4,'trial','id-friday','done','{"state": "done"}');
INSERT INTO "outbox" VALUES(5,'trial','id-other','done','{"state": "done"}');
INSERT INTO "outbox" VALUES(6,'trial','id-friday','failed','{"state": "failed"}');
INSERT INTO "outbox" VALUES(7,'trial','id-friday','done','{"state": "done"}');
INSERT INTO "outbox" VALUES(8,'trial','id-other','done','{"state": "done"}');
INSERT INTO "outbox" VALUES(9,'sweep','id-dropped',NULL,'{"event": "finished"}');
CREATE TABLE results (
	trial_id VARCHAR(80) NOT NULL, 
	result JSON NOT NULL, 
	rounds TEXT NOT NULL, nodes TEXT, 
	CONSTRAINT pk_results PRIMARY KEY (trial_id), 
	CONSTRAINT fk_results_trial_id_trials FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "results" VALUES('done','{"trial_id": "done", "ok": true, "metrics": {"tpot_s": 0.5, "speedup_over_autoregressive": 2.0}, "tags": {"exactness": "exact 3/3, ties 0"}}','{"round": 0}
','packed');
CREATE TABLE sweep_trials (
	sweep_id VARCHAR(80) NOT NULL, 
	trial_id VARCHAR(80) NOT NULL, 
	position INTEGER NOT NULL, 
	CONSTRAINT pk_sweep_trials PRIMARY KEY (sweep_id, trial_id), 
	CONSTRAINT fk_sweep_trials_sweep_id_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (sweep_id), 
	CONSTRAINT fk_sweep_trials_trial_id_trials FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "sweep_trials" VALUES('id-friday','done',0);
INSERT INTO "sweep_trials" VALUES('id-friday','failed',1);
INSERT INTO "sweep_trials" VALUES('id-friday','running',2);
INSERT INTO "sweep_trials" VALUES('id-friday','waiting',3);
INSERT INTO "sweep_trials" VALUES('id-other','done',0);
INSERT INTO "sweep_trials" VALUES('id-other','anywhere',1);
INSERT INTO "sweep_trials" VALUES('id-dropped','dropped',0);
CREATE TABLE sweeps (
	seq INTEGER NOT NULL, 
	sweep_id VARCHAR(80) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	created_at DOUBLE NOT NULL, 
	cancelled BOOLEAN NOT NULL, 
	open_trials INTEGER NOT NULL, 
	record JSON NOT NULL, failed_trials INTEGER DEFAULT '0' NOT NULL, max_failures INTEGER, 
	CONSTRAINT pk_sweeps PRIMARY KEY (seq), 
	CONSTRAINT uq_sweeps_name UNIQUE (name), 
	CONSTRAINT uq_sweeps_sweep_id UNIQUE (sweep_id)
);
INSERT INTO "sweeps" VALUES(1,'id-friday','friday',1.79613810126700854303e+09,0,2,'{"overrides": [["engine=chain"]]}',1,9);
INSERT INTO "sweeps" VALUES(2,'id-other','other',1.79613810128398680688e+09,0,1,'{}',0,NULL);
INSERT INTO "sweeps" VALUES(3,'id-dropped','dropped',1.79613810129098749163e+09,1,0,'{}',0,NULL);
CREATE TABLE tracking_runs (
	sweep_id VARCHAR(80) NOT NULL, 
	trial_id VARCHAR(80) NOT NULL, 
	run_id VARCHAR(80) NOT NULL, 
	CONSTRAINT pk_tracking_runs PRIMARY KEY (sweep_id, trial_id)
);
INSERT INTO "tracking_runs" VALUES('id-friday','done','run-1');
CREATE TABLE trials (
	seq INTEGER NOT NULL, 
	trial_id VARCHAR(80) NOT NULL, 
	state VARCHAR(80) NOT NULL, 
	device VARCHAR(200), 
	queue TEXT NOT NULL, 
	repeat INTEGER NOT NULL, 
	reference_key VARCHAR(80), 
	strategy VARCHAR(80), 
	attempts INTEGER NOT NULL, 
	earlier_attempts INTEGER NOT NULL, 
	charged_failures INTEGER NOT NULL, 
	last_device VARCHAR(200), 
	attempt_id VARCHAR(80), 
	attempt_wall_s DOUBLE, 
	failure_kind VARCHAR(80), 
	failure_message TEXT, 
	reason TEXT NOT NULL, 
	derived BOOLEAN NOT NULL, 
	labels JSON NOT NULL, 
	config JSON NOT NULL, 
	job JSON NOT NULL, baseline_key VARCHAR(80), streamed BOOLEAN DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_trials PRIMARY KEY (seq), 
	CONSTRAINT uq_trials_trial_id UNIQUE (trial_id)
);
INSERT INTO "trials" VALUES(1,'done','done','oneplus12','oneplus12',0,'ref','autoregressive',1,0,0,'oneplus12','done-1-1d682f',2.5,NULL,NULL,'',1,'{"reference_key": "ref", "strategy": "autoregressive", "baseline_key": "base", "storage": "resident"}','{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}','{"trial_id": "done", "attempt_id": ""}','base',0);
INSERT INTO "trials" VALUES(2,'failed','failed','oneplus12','oneplus12',0,'ref','chain',1,0,1,'oneplus12','failed-1-9336ac',0.0,'engine_error','went engine_error','',1,'{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}','{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}','{"trial_id": "failed", "attempt_id": ""}','base',0);
INSERT INTO "trials" VALUES(3,'running','running','oneplus12','oneplus12',0,'ref','chain',1,0,0,'oneplus12','running-1-f16610',NULL,NULL,NULL,'',1,'{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}','{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}','{"trial_id": "running", "attempt_id": ""}','base',0);
INSERT INTO "trials" VALUES(4,'waiting','waiting','oneplus12','oneplus12',0,'ref','chain',0,0,0,NULL,NULL,NULL,NULL,NULL,'phone oneplus12 is busy',1,'{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}','{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}','{"trial_id": "waiting", "attempt_id": ""}','base',0);
INSERT INTO "trials" VALUES(5,'anywhere','waiting',NULL,'phones=each',0,'ref','chain',0,0,0,NULL,NULL,NULL,NULL,NULL,'',1,'{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}','{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}','{"trial_id": "anywhere", "attempt_id": ""}','base',0);
INSERT INTO "trials" VALUES(6,'dropped','cancelled','pixel8','pixel8',0,'ref','chain',0,0,0,NULL,NULL,NULL,NULL,NULL,'',1,'{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}','{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}','{"trial_id": "dropped", "attempt_id": ""}','base',0);
CREATE INDEX ix_trials_derived_seq ON trials (derived, seq);
CREATE INDEX ix_trials_state_queue_seq ON trials (state, queue, seq);
CREATE INDEX ix_trials_state_seq ON trials (state, seq);
CREATE INDEX ix_attempts_device_ended_at ON attempts (device, ended_at);
CREATE INDEX ix_attempts_state ON attempts (state);
CREATE INDEX ix_sweep_trials_trial_id ON sweep_trials (trial_id);
CREATE INDEX ix_events_device_event_id ON events (device, event_id) WHERE kind = 'device_state';
CREATE TRIGGER events_keep_UPDATE BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_keep_DELETE BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE INDEX ix_trials_baseline_key_strategy ON trials (baseline_key, strategy);
CREATE INDEX ix_trials_plainest ON trials (reference_key, strategy, last_device, state, streamed, repeat, trial_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',16);
INSERT INTO "sqlite_sequence" VALUES('outbox',9);
COMMIT;
