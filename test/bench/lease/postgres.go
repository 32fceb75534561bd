package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres keeps leases in PostgreSQL. Each operation calls one function, in one
// transaction and one round trip.
type postgres struct {
	*server
	dir      string
	stopping context.CancelFunc
	swept    chan struct{} // closed when sweeping has ended
}

// schema has the tables and functions. take chooses the least loaded device that
// no other transaction is changing, and waits for one only if all are being
// changed. sweep removes expired leases, once a second.
const schema = `
CREATE TABLE device (id int PRIMARY KEY, free_mb bigint NOT NULL, active int NOT NULL, slots int NOT NULL) WITH (fillfactor = 10);
CREATE TABLE lease (id text PRIMARY KEY, fence bigserial, device int NOT NULL, memory_mb bigint NOT NULL, expires timestamptz NOT NULL);
CREATE INDEX ON lease (expires);
CREATE FUNCTION take(name text, memory bigint, lifetime interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  chosen int;
  number bigint;
BEGIN
  SELECT id INTO chosen FROM device WHERE free_mb >= memory AND active < slots
    ORDER BY active::float / slots LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    SELECT id INTO chosen FROM device WHERE free_mb >= memory AND active < slots
      ORDER BY random() LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN RAISE EXCEPTION 'no room'; END IF;
  END IF;
  UPDATE device SET free_mb = free_mb - memory, active = active + 1 WHERE id = chosen;
  INSERT INTO lease (id, device, memory_mb, expires) VALUES (name, chosen, memory, now() + lifetime) RETURNING fence INTO number;
  RETURN number;
END $$;
CREATE FUNCTION give_back(name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  gone record;
BEGIN
  DELETE FROM lease WHERE id = name RETURNING device, memory_mb INTO gone;
  IF NOT FOUND THEN RAISE EXCEPTION 'unknown'; END IF;
  UPDATE device SET free_mb = free_mb + gone.memory_mb, active = active - 1 WHERE id = gone.device;
END $$;
CREATE FUNCTION sweep() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  gone record;
BEGIN
  FOR gone IN DELETE FROM lease WHERE expires < now() RETURNING device, memory_mb LOOP
    UPDATE device SET free_mb = free_mb + gone.memory_mb, active = active - 1 WHERE id = gone.device;
  END LOOP;
END $$;`

func startPostgres(ctx context.Context, dir string) (contender, error) {
	p := &postgres{dir: dir}
	data := filepath.Join(dir, "data")
	initdb, err := p.command("initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-instructions")
	if err != nil {
		return nil, err
	}
	if text, err := exec.CommandContext(ctx, initdb[0], initdb[1:]...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, text)
	}
	serve, err := p.command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=",
		"-c", "max_connections=200", "-c", "shared_buffers=256MB", "-c", "fsync=on", "-c", "synchronous_commit=on")
	if err != nil {
		return nil, err
	}
	if p.server, err = launch(ctx, p.ready, serve[0], serve[1:]...); err != nil {
		return nil, err
	}
	return p, p.prepare(ctx)
}

// command returns the command line for a program of PostgreSQL. For root, it runs
// the program as the user postgres: PostgreSQL refuses to run as root.
func (p *postgres) command(program string, args ...string) ([]string, error) {
	path, err := find(program)
	if err != nil {
		return nil, err
	}
	command := append([]string{path}, args...)
	if os.Geteuid() != 0 {
		return command, nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(p.dir, uid, gid); err != nil {
		return nil, err
	}
	return append([]string{"setpriv", "--reuid", owner.Uid, "--regid", owner.Gid, "--clear-groups"}, command...), nil
}

func (p *postgres) dial(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, "host="+p.dir+" user=bench dbname=postgres")
}

func (p *postgres) ready(ctx context.Context) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func (p *postgres) prepare(ctx context.Context) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, schema); err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	if _, err := c.Exec(ctx, "INSERT INTO device SELECT n, $1::bigint, 0, $2::int FROM generate_series(1, $3::int) n", memory, slots, devices); err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	sweeping, stop := context.WithCancel(ctx)
	p.stopping, p.swept = stop, make(chan struct{})
	go func() {
		defer close(p.swept)
		defer c.Close(context.WithoutCancel(ctx))
		for {
			select {
			case <-sweeping.Done():
				return
			case <-time.After(time.Second):
			}
			if _, err := c.Exec(sweeping, "SELECT sweep()"); err != nil {
				return
			}
		}
	}()
	return nil
}

func (p *postgres) stop() error {
	if p.stopping != nil {
		p.stopping()
		<-p.swept
	}
	return p.server.stop()
}

func (p *postgres) connect(ctx context.Context) (session, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &postgresSession{c}, nil
}

type postgresSession struct{ conn *pgx.Conn }

func (s *postgresSession) close() error { return s.conn.Close(context.Background()) }

// The driver prepares each statement once and sends only its values after that.
func (s *postgresSession) acquire(ctx context.Context, id string) error {
	_, err := s.conn.Exec(ctx, "SELECT take($1, $2, make_interval(secs => $3))", id, want, lifetime)
	return err
}

func (s *postgresSession) release(ctx context.Context, id string) error {
	_, err := s.conn.Exec(ctx, "SELECT give_back($1)", id)
	return err
}
