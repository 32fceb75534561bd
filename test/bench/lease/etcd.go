package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcd keeps leases in etcd. Each is a key that belongs to an etcd lease: etcd
// deletes the key when the etcd lease expires or is revoked. A client counts
// from those keys what each device has left. Every grant changes the key of its
// device, and a transaction takes the device only if that key has not changed
// since the client counted. A release in between does no harm.
type etcd struct {
	*server
	endpoint string
}

func startEtcd(ctx context.Context, dir string) (contender, error) {
	program, err := find("etcd")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	e := &etcd{endpoint: "http://" + ports[0]}
	peer := "http://" + ports[1]
	e.server, err = launch(ctx, e.prepare, program, "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", e.endpoint, "--advertise-client-urls", e.endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--quota-backend-bytes", strconv.Itoa(4<<30), "--logger", "zap", "--log-level", "error")
	return e, err
}

// freePorts returns free addresses on the loopback. etcd accepts a Unix socket
// only by a name without folders, so clients reach it over TCP.
func freePorts(n int) ([]string, error) {
	var found []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		found = append(found, l.Addr().String())
	}
	return found, nil
}

func (e *etcd) dial() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{e.endpoint}, Logger: zap.NewNop()})
}

func (e *etcd) prepare(ctx context.Context) error {
	c, err := e.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range devices {
		if _, err := c.Put(ctx, deviceKey(i), ""); err != nil {
			return err
		}
	}
	return nil
}

func deviceKey(i int) string { return "device/" + strconv.Itoa(i) }

func (e *etcd) connect(context.Context) (session, error) {
	c, err := e.dial()
	if err != nil {
		return nil, err
	}
	return &etcdSession{client: c}, nil
}

type etcdSession struct {
	client *clientv3.Client
	lease  clientv3.LeaseID // of the held lease
}

func (s *etcdSession) close() error { return s.client.Close() }

// look returns the reads that a decision needs.
func look() []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet("device/", clientv3.WithPrefix(), clientv3.WithSerializable()),
		clientv3.OpGet("lease/", clientv3.WithPrefix(), clientv3.WithSerializable()),
	}
}

func (s *etcdSession) acquire(ctx context.Context, id string) error {
	life, err := s.client.Grant(ctx, lifetime)
	if err != nil {
		return err
	}
	s.lease = life.ID
	seen, err := s.client.Txn(ctx).Then(look()...).Commit()
	if err != nil {
		return err
	}
	for {
		device, revision, err := leastLoaded(seen)
		if err != nil {
			return err
		}
		seen, err = s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(deviceKey(device)), "=", revision),
				clientv3.Compare(clientv3.CreateRevision("lease/"+id), "=", 0)).
			Then(clientv3.OpPut(deviceKey(device), ""),
				clientv3.OpPut("lease/"+id, fmt.Sprintf("%d %d", device, want), clientv3.WithLease(life.ID))).
			Else(look()...).Commit()
		if err != nil || seen.Succeeded {
			return err
		}
	}
}

// leastLoaded returns the least loaded device and its revision. It chooses among
// equals at random, so that clients that read the same do not all want the same
// device.
func leastLoaded(seen *clientv3.TxnResponse) (device int, revision int64, err error) {
	var used, active [devices]int
	for _, kv := range seen.Responses[1].GetResponseRange().Kvs {
		text, memory, _ := strings.Cut(string(kv.Value), " ")
		on, err1 := strconv.Atoi(text)
		amount, err2 := strconv.Atoi(memory)
		if err1 != nil || err2 != nil {
			return 0, 0, errors.Join(err1, err2)
		}
		used[on] += amount
		active[on]++
	}
	best := -1
	from := rand.IntN(devices)
	for i := range devices {
		d := (from + i) % devices
		if memory-used[d] >= want && active[d] < slots && (best < 0 || active[d] < active[best]) {
			best = d
		}
	}
	if best < 0 {
		return 0, 0, errNoRoom
	}
	return best, seen.Responses[0].GetResponseRange().Kvs[best].ModRevision, nil
}

func (s *etcdSession) release(ctx context.Context, _ string) error {
	_, err := s.client.Revoke(ctx, s.lease)
	return err
}
