package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// redis keeps leases in Redis, with one script for each operation. Redis runs a
// script as one step, and writes one entry to the append-only file.
type redis struct {
	*server
	socket           string
	acquired, ending string // hashes of the scripts
}

// acquireScript grants a lease. KEYS are the devices, the fence, the expiries and
// the lease; ARGV are id, memory, now in ms and lifetime in ms. Devices is one
// hash with the free memory (m0…) and the active slots (a0…) of every device.
const acquireScript = `
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[3], 'LIMIT', 0, 16)
for _, id in ipairs(due) do
  local l = redis.call('HMGET', 'lease:' .. id, 'device', 'memory')
  if l[1] then
    redis.call('HINCRBY', KEYS[1], 'm' .. l[1], l[2])
    redis.call('HINCRBY', KEYS[1], 'a' .. l[1], -1)
    redis.call('DEL', 'lease:' .. id)
  end
  redis.call('ZREM', KEYS[3], id)
end
if redis.call('EXISTS', KEYS[4]) == 1 then return redis.error_reply('DUPLICATE') end
local d = redis.call('HMGET', KEYS[1], 'm0','m1','m2','m3','m4','m5','m6','m7','a0','a1','a2','a3','a4','a5','a6','a7')
local best, load
for i = 1, 8 do
  local active = tonumber(d[i+8])
  if tonumber(d[i]) >= tonumber(ARGV[2]) and active < 16 and (not load or active < load) then best, load = i-1, active end
end
if not best then return redis.error_reply('NOROOM') end
redis.call('HINCRBY', KEYS[1], 'm' .. best, -ARGV[2])
redis.call('HINCRBY', KEYS[1], 'a' .. best, 1)
local fence = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[4], 'device', best, 'memory', ARGV[2], 'fence', fence)
redis.call('ZADD', KEYS[3], ARGV[3] + ARGV[4], ARGV[1])
return {best, fence}`

const releaseScript = `
local l = redis.call('HMGET', KEYS[3], 'device', 'memory')
if not l[1] then return redis.error_reply('UNKNOWN') end
redis.call('HINCRBY', KEYS[1], 'm' .. l[1], l[2])
redis.call('HINCRBY', KEYS[1], 'a' .. l[1], -1)
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1`

func startRedis(ctx context.Context, dir, fsync string) (contender, error) {
	program, err := find("redis-server")
	if err != nil {
		return nil, err
	}
	r := &redis{socket: filepath.Join(dir, "s")}
	r.server, err = launch(ctx, r.prepare, program,
		"--port", "0", "--unixsocket", r.socket, "--dir", dir, "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", fsync, "--save", "")
	return r, err
}

// prepare loads the scripts and fills in the devices.
func (r *redis) prepare(ctx context.Context) error {
	s, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if r.acquired, err = s.do("SCRIPT", "LOAD", acquireScript); err != nil {
		return err
	}
	if r.ending, err = s.do("SCRIPT", "LOAD", releaseScript); err != nil {
		return err
	}
	set := []string{"HSET", "devices"}
	for i := range devices {
		n := strconv.Itoa(i)
		set = append(set, "m"+n, strconv.Itoa(memory), "a"+n, "0")
	}
	_, err = s.do(set...)
	return err
}

func (r *redis) connect(ctx context.Context) (session, error) { return r.dial(ctx) }

func (r *redis) dial(ctx context.Context) (*redisSession, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", r.socket)
	if err != nil {
		return nil, err
	}
	return &redisSession{redis: r, conn: c, in: bufio.NewReader(c)}, nil
}

// redisSession speaks the protocol of Redis itself, without a client library.
type redisSession struct {
	redis *redis
	conn  net.Conn
	in    *bufio.Reader
	out   []byte
}

func (s *redisSession) close() error { return s.conn.Close() }

func (s *redisSession) acquire(_ context.Context, id string) error {
	_, err := s.do("EVALSHA", s.redis.acquired, "4", "devices", "fence", "expiries", "lease:"+id,
		id, strconv.Itoa(want), strconv.FormatInt(time.Now().UnixMilli(), 10), strconv.Itoa(lifetime*1000))
	return err
}

func (s *redisSession) release(_ context.Context, id string) error {
	_, err := s.do("EVALSHA", s.redis.ending, "3", "devices", "expiries", "lease:"+id, id)
	return err
}

// do sends a command and returns the answer. Of a list, it returns the last item.
func (s *redisSession) do(words ...string) (string, error) {
	s.out = append(s.out[:0], '*')
	s.out = append(strconv.AppendInt(s.out, int64(len(words)), 10), "\r\n"...)
	for _, w := range words {
		s.out = append(s.out, '$')
		s.out = append(strconv.AppendInt(s.out, int64(len(w)), 10), "\r\n"...)
		s.out = append(append(s.out, w...), "\r\n"...)
	}
	if _, err := s.conn.Write(s.out); err != nil {
		return "", err
	}
	return s.reply()
}

func (s *redisSession) reply() (string, error) {
	line, err := s.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return "", fmt.Errorf("redis answered %q", line)
	}
	if kind == '$' {
		text := make([]byte, n+2)
		_, err := io.ReadFull(s.in, text)
		return string(text[:n]), err
	}
	var last string
	for range n {
		if last, err = s.reply(); err != nil {
			return "", err
		}
	}
	return last, nil
}
