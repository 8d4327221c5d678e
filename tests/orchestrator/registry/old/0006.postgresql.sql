CREATE FUNCTION public.lever_events_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$;
CREATE TABLE public.attempts (
    attempt_id character varying(80) NOT NULL,
    trial_id character varying(80) NOT NULL,
    number integer NOT NULL,
    device character varying(200) NOT NULL,
    token integer NOT NULL,
    owner text NOT NULL,
    state character varying(80) NOT NULL,
    started_at double precision NOT NULL,
    ended_at double precision,
    failure_kind character varying(80),
    failure_message text,
    log_tail text NOT NULL,
    charged boolean NOT NULL,
    cancel_requested boolean NOT NULL,
    wall_s double precision NOT NULL,
    connection_losses integer NOT NULL
);
CREATE TABLE public.calibrations (
    device character varying(200) NOT NULL,
    key character varying(80) NOT NULL,
    made_at double precision NOT NULL,
    costs json NOT NULL
);
CREATE TABLE public.devices (
    name character varying(200) NOT NULL,
    address text NOT NULL,
    kind character varying(80) NOT NULL,
    host text NOT NULL,
    serial text NOT NULL,
    root text NOT NULL,
    state character varying(80) NOT NULL,
    state_reason text NOT NULL,
    facts json NOT NULL,
    tags json NOT NULL,
    trusted_since double precision NOT NULL,
    state_since double precision DEFAULT '0'::double precision NOT NULL
);
CREATE TABLE public.events (
    event_id bigint NOT NULL,
    at double precision NOT NULL,
    kind character varying(80) NOT NULL,
    sweep_id character varying(80),
    trial_id character varying(80),
    attempt_id character varying(80),
    device character varying(200),
    data json NOT NULL
);
CREATE SEQUENCE public.events_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.events_event_id_seq OWNED BY public.events.event_id;
CREATE TABLE public.leases (
    device character varying(200) NOT NULL,
    token integer NOT NULL,
    attempt_id character varying(80),
    owner text NOT NULL,
    expires_at double precision NOT NULL,
    ttl_s double precision DEFAULT '0'::double precision NOT NULL,
    exclusive boolean DEFAULT false NOT NULL
);
CREATE TABLE public.lever_schema_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.outbox (
    item_id bigint NOT NULL,
    kind character varying(80) NOT NULL,
    sweep_id character varying(80) NOT NULL,
    trial_id character varying(80),
    payload json NOT NULL
);
CREATE SEQUENCE public.outbox_item_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.outbox_item_id_seq OWNED BY public.outbox.item_id;
CREATE TABLE public.results (
    trial_id character varying(80) NOT NULL,
    result json NOT NULL,
    rounds text NOT NULL,
    nodes text
);
CREATE TABLE public.sweep_trials (
    sweep_id character varying(80) NOT NULL,
    trial_id character varying(80) NOT NULL,
    "position" integer NOT NULL
);
CREATE TABLE public.sweeps (
    seq bigint NOT NULL,
    sweep_id character varying(80) NOT NULL,
    name character varying(200) NOT NULL,
    created_at double precision NOT NULL,
    cancelled boolean NOT NULL,
    open_trials integer NOT NULL,
    record json NOT NULL,
    failed_trials integer DEFAULT 0 NOT NULL,
    max_failures integer
);
CREATE SEQUENCE public.sweeps_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sweeps_seq_seq OWNED BY public.sweeps.seq;
CREATE TABLE public.tracking_runs (
    sweep_id character varying(80) NOT NULL,
    trial_id character varying(80) NOT NULL,
    run_id character varying(80) NOT NULL
);
CREATE TABLE public.trials (
    seq bigint NOT NULL,
    trial_id character varying(80) NOT NULL,
    state character varying(80) NOT NULL,
    device character varying(200),
    queue text NOT NULL,
    repeat integer NOT NULL,
    reference_key character varying(80),
    strategy character varying(80),
    attempts integer NOT NULL,
    earlier_attempts integer NOT NULL,
    charged_failures integer NOT NULL,
    last_device character varying(200),
    attempt_id character varying(80),
    attempt_wall_s double precision,
    failure_kind character varying(80),
    failure_message text,
    reason text NOT NULL,
    derived boolean NOT NULL,
    labels json NOT NULL,
    config json NOT NULL,
    job json NOT NULL,
    baseline_key character varying(80),
    streamed boolean DEFAULT true NOT NULL
);
CREATE SEQUENCE public.trials_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trials_seq_seq OWNED BY public.trials.seq;
ALTER TABLE ONLY public.events ALTER COLUMN event_id SET DEFAULT nextval('public.events_event_id_seq'::regclass);
ALTER TABLE ONLY public.outbox ALTER COLUMN item_id SET DEFAULT nextval('public.outbox_item_id_seq'::regclass);
ALTER TABLE ONLY public.sweeps ALTER COLUMN seq SET DEFAULT nextval('public.sweeps_seq_seq'::regclass);
ALTER TABLE ONLY public.trials ALTER COLUMN seq SET DEFAULT nextval('public.trials_seq_seq'::regclass);
INSERT INTO public.attempts VALUES ('done-1-34d282', 'done', 1, 'oneplus12', 1, 'me', 'done', 1796138103.627379, 1796138103.713373, NULL, NULL, '', false, false, 2.5, 0);
INSERT INTO public.attempts VALUES ('failed-1-89daa3', 'failed', 1, 'oneplus12', 2, 'me', 'failed', 1796138103.971063, 1796138104.037863, 'engine_error', 'went engine_error', 'the log', true, false, 0, 0);
INSERT INTO public.attempts VALUES ('running-1-7a31cb', 'running', 1, 'oneplus12', 3, 'another-host/1/2', 'running', 1796138104.344787, NULL, NULL, NULL, '', false, false, 0, 0);
INSERT INTO public.calibrations VALUES ('oneplus12', 'key', 1796138104.481088, '{"threads": 2}');
INSERT INTO public.devices VALUES ('oneplus12', 'tcp:127.0.0.1:873', 'virtual', 'here', 'serial-oneplus12', '/data/local/tmp/lever', 'ready', '', '{"soc": "SM8650", "ram_mb": 16000}', '[]', 0, 1796138103.340522);
INSERT INTO public.devices VALUES ('pixel8', 'tcp:127.0.0.1:602', 'virtual', 'here', 'serial-pixel8', '/data/local/tmp/lever', 'quarantined', '3 failures in a row: unreachable', '{"soc": "SM8650", "ram_mb": 16000}', '["bench"]', 0, 1796138104.43745);
INSERT INTO public.events VALUES (1, 1796138103.347542, 'device_state', NULL, NULL, NULL, 'oneplus12', '{"state": "ready", "reason": ""}');
INSERT INTO public.events VALUES (2, 1796138103.361398, 'device_state', NULL, NULL, NULL, 'pixel8', '{"state": "ready", "reason": ""}');
INSERT INTO public.events VALUES (3, 1796138103.405562, 'sweep_submitted', 'id-friday', NULL, NULL, NULL, '{"name": "friday", "queued": 4, "reused": 0, "in_progress": 0}');
INSERT INTO public.events VALUES (4, 1796138103.441012, 'sweep_submitted', 'id-other', NULL, NULL, NULL, '{"name": "other", "queued": 1, "reused": 0, "in_progress": 1}');
INSERT INTO public.events VALUES (5, 1796138103.483863, 'sweep_submitted', 'id-dropped', NULL, NULL, NULL, '{"name": "dropped", "queued": 1, "reused": 0, "in_progress": 0}');
INSERT INTO public.events VALUES (6, 1796138103.652726, 'attempt_started', NULL, 'done', 'done-1-34d282', 'oneplus12', '{"number": 1, "owner": "me"}');
INSERT INTO public.events VALUES (7, 1796138103.751616, 'attempt_finished', NULL, 'done', 'done-1-34d282', 'oneplus12', '{"state": "done", "failure_kind": null, "failure_message": "", "charged": false, "attempt_wall_s": 2.5, "connection_losses": 0, "trial_state": "done"}');
INSERT INTO public.events VALUES (8, 1796138103.751681, 'trial_done', NULL, 'done', 'done-1-34d282', 'oneplus12', '{"state": "done", "failure_kind": null, "failure_message": "", "charged": false, "attempt_wall_s": 2.5, "connection_losses": 0, "trial_state": "done"}');
INSERT INTO public.events VALUES (9, 1796138103.996791, 'attempt_started', NULL, 'failed', 'failed-1-89daa3', 'oneplus12', '{"number": 1, "owner": "me"}');
INSERT INTO public.events VALUES (10, 1796138104.065526, 'attempt_finished', NULL, 'failed', 'failed-1-89daa3', 'oneplus12', '{"state": "failed", "failure_kind": "engine_error", "failure_message": "went engine_error", "charged": true, "attempt_wall_s": 0.0, "connection_losses": 0, "trial_state": "failed"}');
INSERT INTO public.events VALUES (11, 1796138104.065584, 'trial_failed', NULL, 'failed', 'failed-1-89daa3', 'oneplus12', '{"state": "failed", "failure_kind": "engine_error", "failure_message": "went engine_error", "charged": true, "attempt_wall_s": 0.0, "connection_losses": 0, "trial_state": "failed"}');
INSERT INTO public.events VALUES (12, 1796138104.162216, 'trial_derived', NULL, 'done', NULL, NULL, '{"tags": {"exactness": "exact 3/3, ties 0"}}');
INSERT INTO public.events VALUES (13, 1796138104.261381, 'sweep_cancelled', 'id-dropped', NULL, NULL, NULL, '{"waiting": 1, "running": 0}');
INSERT INTO public.events VALUES (14, 1796138104.326002, 'sweep_finished', 'id-dropped', NULL, NULL, NULL, '{}');
INSERT INTO public.events VALUES (15, 1796138104.3462, 'attempt_started', NULL, 'running', 'running-1-7a31cb', 'oneplus12', '{"number": 1, "owner": "another-host/1/2"}');
INSERT INTO public.events VALUES (16, 1796138104.454889, 'device_state', NULL, NULL, NULL, 'pixel8', '{"state": "quarantined", "reason": "3 failures in a row: unreachable"}');
INSERT INTO public.leases VALUES ('pixel8', 0, NULL, '', 0, 0, false);
INSERT INTO public.leases VALUES ('oneplus12', 3, 'running-1-7a31cb', 'another-host/1/2', 1764586000, 60, false);
INSERT INTO public.lever_schema_version VALUES ('0006');
INSERT INTO public.outbox VALUES (3, 'sweep', 'id-dropped', NULL, '{"event": "submitted"}');
INSERT INTO public.outbox VALUES (4, 'trial', 'id-friday', 'done', '{"state": "done"}');
INSERT INTO public.outbox VALUES (5, 'trial', 'id-other', 'done', '{"state": "done"}');
INSERT INTO public.outbox VALUES (6, 'trial', 'id-friday', 'failed', '{"state": "failed"}');
INSERT INTO public.outbox VALUES (7, 'trial', 'id-friday', 'done', '{"state": "done"}');
INSERT INTO public.outbox VALUES (8, 'trial', 'id-other', 'done', '{"state": "done"}');
INSERT INTO public.outbox VALUES (9, 'sweep', 'id-dropped', NULL, '{"event": "finished"}');
INSERT INTO public.results VALUES ('done', '{"trial_id": "done", "ok": true, "metrics": {"tpot_s": 0.5, "speedup_over_autoregressive": 2.0}, "tags": {"exactness": "exact 3/3, ties 0"}}', '{"round": 0}
', 'packed');
INSERT INTO public.sweep_trials VALUES ('id-friday', 'done', 0);
INSERT INTO public.sweep_trials VALUES ('id-friday', 'failed', 1);
INSERT INTO public.sweep_trials VALUES ('id-friday', 'running', 2);
INSERT INTO public.sweep_trials VALUES ('id-friday', 'waiting', 3);
INSERT INTO public.sweep_trials VALUES ('id-other', 'done', 0);
INSERT INTO public.sweep_trials VALUES ('id-other', 'anywhere', 1);
INSERT INTO public.sweep_trials VALUES ('id-dropped', 'dropped', 0);
INSERT INTO public.sweeps VALUES (2, 'id-other', 'other', 1796138103.413383, false, 1, '{}', 0, NULL);
INSERT INTO public.sweeps VALUES (1, 'id-friday', 'friday', 1796138103.373341, false, 2, '{"overrides": [["engine=chain"]]}', 1, 9);
INSERT INTO public.sweeps VALUES (3, 'id-dropped', 'dropped', 1796138103.448701, true, 0, '{}', 0, NULL);
INSERT INTO public.tracking_runs VALUES ('id-friday', 'done', 'run-1');
INSERT INTO public.trials VALUES (5, 'anywhere', 'waiting', NULL, 'phones=each', 0, 'ref', 'chain', 0, 0, 0, NULL, NULL, NULL, NULL, NULL, '', true, '{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}', '{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}', '{"trial_id": "anywhere", "attempt_id": ""}', 'base', false);
INSERT INTO public.trials VALUES (2, 'failed', 'failed', 'oneplus12', 'oneplus12', 0, 'ref', 'chain', 1, 0, 1, 'oneplus12', 'failed-1-89daa3', 0, 'engine_error', 'went engine_error', '', true, '{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}', '{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}', '{"trial_id": "failed", "attempt_id": ""}', 'base', false);
INSERT INTO public.trials VALUES (1, 'done', 'done', 'oneplus12', 'oneplus12', 0, 'ref', 'autoregressive', 1, 0, 0, 'oneplus12', 'done-1-34d282', 2.5, NULL, NULL, '', true, '{"reference_key": "ref", "strategy": "autoregressive", "baseline_key": "base", "storage": "resident"}', '{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}', '{"trial_id": "done", "attempt_id": ""}', 'base', false);
INSERT INTO public.trials VALUES (6, 'dropped', 'cancelled', 'pixel8', 'pixel8', 0, 'ref', 'chain', 0, 0, 0, NULL, NULL, NULL, NULL, NULL, '', true, '{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}', '{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}', '{"trial_id": "dropped", "attempt_id": ""}', 'base', false);
INSERT INTO public.trials VALUES (3, 'running', 'running', 'oneplus12', 'oneplus12', 0, 'ref', 'chain', 1, 0, 0, 'oneplus12', 'running-1-7a31cb', NULL, NULL, NULL, '', true, '{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}', '{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}', '{"trial_id": "running", "attempt_id": ""}', 'base', false);
INSERT INTO public.trials VALUES (4, 'waiting', 'waiting', 'oneplus12', 'oneplus12', 0, 'ref', 'chain', 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 'phone oneplus12 is busy', true, '{"reference_key": "ref", "strategy": "chain", "baseline_key": "base", "storage": "resident"}', '{"phones": "each", "schedule": {"exclusive_host": false, "deadline_s": 60.0}}', '{"trial_id": "waiting", "attempt_id": ""}', 'base', false);
SELECT pg_catalog.setval('public.events_event_id_seq', 16, true);
SELECT pg_catalog.setval('public.outbox_item_id_seq', 9, true);
SELECT pg_catalog.setval('public.sweeps_seq_seq', 3, true);
SELECT pg_catalog.setval('public.trials_seq_seq', 6, true);
ALTER TABLE ONLY public.lever_schema_version
    ADD CONSTRAINT lever_schema_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT pk_attempts PRIMARY KEY (attempt_id);
ALTER TABLE ONLY public.calibrations
    ADD CONSTRAINT pk_calibrations PRIMARY KEY (device, key);
ALTER TABLE ONLY public.devices
    ADD CONSTRAINT pk_devices PRIMARY KEY (name);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT pk_events PRIMARY KEY (event_id);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT pk_leases PRIMARY KEY (device);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT pk_outbox PRIMARY KEY (item_id);
ALTER TABLE ONLY public.results
    ADD CONSTRAINT pk_results PRIMARY KEY (trial_id);
ALTER TABLE ONLY public.sweep_trials
    ADD CONSTRAINT pk_sweep_trials PRIMARY KEY (sweep_id, trial_id);
ALTER TABLE ONLY public.sweeps
    ADD CONSTRAINT pk_sweeps PRIMARY KEY (seq);
ALTER TABLE ONLY public.tracking_runs
    ADD CONSTRAINT pk_tracking_runs PRIMARY KEY (sweep_id, trial_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT pk_trials PRIMARY KEY (seq);
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT uq_attempts_trial_id_number UNIQUE (trial_id, number);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT uq_leases_attempt_id UNIQUE (attempt_id);
ALTER TABLE ONLY public.sweeps
    ADD CONSTRAINT uq_sweeps_name UNIQUE (name);
ALTER TABLE ONLY public.sweeps
    ADD CONSTRAINT uq_sweeps_sweep_id UNIQUE (sweep_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT uq_trials_trial_id UNIQUE (trial_id);
CREATE INDEX ix_attempts_device_ended_at ON public.attempts USING btree (device, ended_at);
CREATE INDEX ix_attempts_state ON public.attempts USING btree (state);
CREATE INDEX ix_events_device_event_id ON public.events USING btree (device, event_id) WHERE ((kind)::text = 'device_state'::text);
CREATE INDEX ix_sweep_trials_trial_id ON public.sweep_trials USING btree (trial_id);
CREATE INDEX ix_trials_baseline_key_strategy ON public.trials USING btree (baseline_key, strategy);
CREATE INDEX ix_trials_derived_seq ON public.trials USING btree (derived, seq);
CREATE INDEX ix_trials_plainest ON public.trials USING btree (reference_key, strategy, last_device, state, streamed, repeat, trial_id);
CREATE INDEX ix_trials_state_queue_seq ON public.trials USING btree (state, queue, seq);
CREATE INDEX ix_trials_state_seq ON public.trials USING btree (state, seq);
CREATE TRIGGER events_keep BEFORE DELETE OR UPDATE OR TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.lever_events_append_only();
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT fk_attempts_device_devices FOREIGN KEY (device) REFERENCES public.devices(name);
ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT fk_attempts_trial_id_trials FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.calibrations
    ADD CONSTRAINT fk_calibrations_device_devices FOREIGN KEY (device) REFERENCES public.devices(name);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT fk_leases_device_devices FOREIGN KEY (device) REFERENCES public.devices(name);
ALTER TABLE ONLY public.results
    ADD CONSTRAINT fk_results_trial_id_trials FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.sweep_trials
    ADD CONSTRAINT fk_sweep_trials_sweep_id_sweeps FOREIGN KEY (sweep_id) REFERENCES public.sweeps(sweep_id);
ALTER TABLE ONLY public.sweep_trials
    ADD CONSTRAINT fk_sweep_trials_trial_id_trials FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
