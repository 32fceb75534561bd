package energy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/lease"
)

var card = gpu.Device{UUID: "GPU-a", PowerLimit: gpu.Some(gpu.Watts(700))}

func held(fence uint64, user, service, name string) *lease.Lease {
	return &lease.Lease{ID: fmt.Sprint("lease-", fence), Fence: fence, Holder: lease.Holder{User: user, Service: service, Name: name}, Parts: []lease.Part{{GPU: "GPU-a"}}}
}

// second returns a sample some seconds after noon.
func second(s int, watts gpu.Watts) *gpu.Sample {
	return &gpu.Sample{Time: noon.Add(time.Duration(s) * time.Second), Power: gpu.Some(watts), Utilization: gpu.Some(gpu.Percent(90))}
}

// idle lets Meters learn that the card draws 100 W by itself, and returns the
// next second.
func idle(k *Meters) int {
	for s := range 21 {
		k.Observe(card, second(s, 100), nil)
	}
	return 21
}

func rounded(j gpu.Joules) gpu.Joules { return gpu.Joules(math.Round(float64(j))) }

// sum checks that the parts of the only device add up, and returns it.
func sum(t *testing.T, k *Meters) Device {
	t.Helper()
	all := k.Devices()
	if len(all) != 1 {
		t.Fatalf("there are %d devices", len(all))
	}
	d := all[0]
	if diff := float64(d.Total - d.Idle - d.Others - d.Leases); math.Abs(diff) > 1e-6 {
		t.Errorf("the parts of %+v do not add up", d)
	}
	return d
}

func TestLeasesGetWhatTheyUse(t *testing.T) {
	k := New(Options{})
	from := idle(k)
	train, serve := held(1, "ada", "", "train.py"), held(2, "bob", "embedder", "serve.py")
	both := []Process{{10, train}, {20, serve}}
	k.Observe(card, second(from, 500), both[:1])
	for s := from + 1; s <= from+10; s++ {
		sample := second(s, 500)
		sample.Slow = gpu.Slow{SlowTime: noon.Add(time.Duration(from) * time.Second), ProcessUtilization: map[int]gpu.Percent{10: 60, 20: 20}}
		k.Observe(card, sample, both)
	}
	d := sum(t, k)
	if got := rounded(k.Lease(1).Or(0)) + rounded(k.Lease(2).Or(0)); got != rounded(d.Leases) {
		t.Errorf("leases used %v of %v", got, d.Leases)
	}
	if a, b := k.Lease(1).Or(0), k.Lease(2).Or(0); a < 2.8*b || a > 3.5*b {
		t.Errorf("a lease that has the device three times as long used %v, the other %v", a, b)
	}
	ended := noon.Add(time.Duration(from+10)*time.Second + 500*time.Millisecond)
	billed := k.Close(1, ended)
	used := k.Ended(train, ended)
	if billed != used.Joules || !used.Watts.Known() || used.Watts.Or(0) < 250 || used.Watts.Or(0) > 350 {
		t.Errorf("the bill says %v, and the lease used %+v", billed, used)
	}
	if got := k.Lease(1); got != billed {
		t.Errorf("a moment after its end it is %v", got)
	}
	k.Observe(card, second(from+11, 500), both) // what the driver lists may be a moment old
	if got := k.Lease(1); got != billed {
		t.Errorf("after its end the lease used %v", got)
	}
	if sum(t, k).Others == 0 {
		t.Error("what is left of its process belongs to nobody")
	}
	var got []string
	for _, s := range k.Accounts() {
		got = append(got, fmt.Sprintf("%s/%s/%s", s.User, s.Service, s.Name))
	}
	if diff := cmp.Diff([]string{"ada//train.py", "bob/embedder/serve.py"}, got); diff != "" {
		t.Error(diff)
	}
	services := k.Services()
	if rounded(services[""]) != rounded(billed.Or(0)) || services["embedder"] == 0 {
		t.Errorf("services used %v", services)
	}
	if k.Ended(held(9, "x", "", ""), ended).Joules.Known() {
		t.Error("a lease that was never on a device used something")
	}
}

// A device that does not answer repeats its last sample, and an instance is part
// of its device.
func TestNothingIsCountedTwice(t *testing.T) {
	k := New(Options{})
	from := idle(k)
	before := sum(t, k)
	k.Observe(card, second(from-1, 100), nil)
	k.Observe(gpu.Device{UUID: "MIG-1", Parent: "GPU-a"}, second(from, 300), nil)
	if diff := cmp.Diff(before, sum(t, k)); diff != "" {
		t.Error(diff)
	}
	k.Observe(gpu.Device{UUID: "GPU-dumb"}, &gpu.Sample{Time: noon}, nil)
	k.Observe(gpu.Device{UUID: "GPU-dumb"}, &gpu.Sample{Time: noon.Add(time.Second)}, nil)
	if len(k.Devices()) != 1 {
		t.Errorf("a device that measures nothing is listed: %+v", k.Devices())
	}
}

// The driver is asked what processes had only while several leases are on a
// device, and not with every sample.
func TestAsksTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		k := New(Options{Busy: func(_ context.Context, uuid string, since time.Time) (device.Busy, error) {
			if asked++; asked == 1 {
				return device.Busy{}, errors.New("not now")
			}
			return device.Busy{From: since, Until: time.Now(), Shares: map[int]gpu.Percent{10: 90, 20: 10}}, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- k.Run(ctx) }()
		one, two := Process{10, held(1, "ada", "", "")}, Process{20, held(2, "bob", "", "")}
		observe := func(seconds int, here ...Process) {
			for range seconds {
				time.Sleep(time.Second)
				k.Observe(card, &gpu.Sample{Time: time.Now(), Power: gpu.Some(gpu.Watts(500))}, here)
				synctest.Wait()
			}
		}
		observe(30, one)
		if asked != 0 {
			t.Errorf("with one lease, the driver was asked %d times", asked)
		}
		alone := k.Lease(1).Or(0)
		observe(61, one, two)
		if asked < 11 || asked > 13 {
			t.Errorf("in a minute with two leases, the driver was asked %d times", asked)
		}
		if a, b := k.Lease(1).Or(0)-alone, k.Lease(2).Or(0); a < 4*b || a > 10*b {
			t.Errorf("with nine times of the device, one lease used %v and the other %v", a, b)
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

func TestSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "energy.json")
	k, damage := Open(path, Options{})
	if damage != nil {
		t.Fatal(damage)
	}
	from := idle(k)
	train, gone := held(1, "ada", "", "train.py"), held(2, "bob", "", "gone.py")
	for s := from; s < from+10; s++ {
		k.Observe(card, second(s, 500), []Process{{10, train}, {20, gone}})
	}
	if err := k.write(); err != nil {
		t.Fatal(err)
	}
	labels := map[string]bool{}
	label := func(name string) string {
		labels[name] = true
		return name
	}
	again, damage := Open(path, Options{Label: func(service, _ string) string { return label(service) }, User: label})
	if damage != nil {
		t.Fatal(damage)
	}
	if len(labels) != 0 {
		t.Errorf("those who used something once have the labels %v, of which there are few", labels)
	}
	if diff := cmp.Diff(k.Devices(), again.Devices()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(k.Accounts(), again.Accounts()); diff != "" {
		t.Error(diff)
	}
	again.Recall([]*lease.Lease{train, {Fence: 2, ID: "another"}})
	if again.Lease(1) != k.Lease(1) || again.Lease(2).Known() {
		t.Errorf("the lease that stands used %v, the other one %v", again.Lease(1), again.Lease(2))
	}
	before := again.Lease(1).Or(0)
	again.Observe(card, second(from+100, 500), []Process{{10, train}})
	again.Observe(card, second(from+101, 500), []Process{{10, train}})
	if got := rounded(again.Lease(1).Or(0) - before); got != 400 {
		t.Errorf("in a second after the restart it used %v", got)
	}
	if services, users := again.Services(), again.Users(); len(services)+len(users) != 0 {
		t.Errorf("what a daemon that is killed now would lose is shown: services used %v, users %v", services, users)
	}
	if err := again.write(); err != nil {
		t.Fatal(err)
	}
	services, users, used := again.Services(), again.Users(), k.Users()["ada"]
	if len(services) != 1 || rounded(services[""]-again.ServiceBefore("")) != 400 || len(users) != 1 || used == 0 || again.UserBefore("ada") != used || rounded(users["ada"]-used) != 400 {
		t.Errorf("since the restart services used %v, users %v", services, users)
	}
	third, damage := Open(path, Options{})
	if damage != nil || third.UserBefore("ada") != users["ada"] || third.UserBefore("bob") != k.Users()["bob"] || third.UserBefore("bob") == 0 {
		t.Errorf("%v, after another restart ada used %v, bob %v", damage, third.UserBefore("ada"), third.UserBefore("bob"))
	}
	if d := sum(t, again); d.Unmeasured != 91*time.Second {
		t.Errorf("%v were not measured", d.Unmeasured)
	}
	if used := again.Ended(train, noon.Add(time.Duration(from+101)*time.Second)); !used.Joules.Known() || !used.Watts.Known() {
		t.Errorf("in the end it used %+v", used)
	}
}

// A file tells whether a daemon without sums of users has written it, also where no user used
// anything.
func TestOfOlder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "energy.json")
	if OfOlder(path) {
		t.Error("a file that is not there is of an older berth")
	}
	if err := os.WriteFile(path, []byte(`{"version":1,"devices":{},"leases":{},"accounts":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if !OfOlder(path) {
		t.Error("a file of an older berth is not known")
	}
	k, damage := Open(path, Options{})
	if damage != nil {
		t.Fatal(damage)
	}
	if err := k.write(); err != nil || OfOlder(path) {
		t.Errorf("what this berth writes is of an older one, %v", err)
	}
}

func TestFilesThatMakeNoSense(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{`,
		"another version": `{"version":2}`,
		"no sum":          `{"version":1,"devices":{"GPU-a":{"total_uj":5,"idle_uj":1}}}`,
		"less than none":  `{"version":1,"devices":{"GPU-a":{"total_uj":-1,"idle_uj":-1}}}`,
		"no device":       `{"version":1,"devices":{"GPU-a":null}}`,
		"a lease":         `{"version":1,"leases":{"1":{"energy_uj":-5}}}`,
		"no lease":        `{"version":1,"leases":{"1":null}}`,
		"an account":      `{"version":1,"accounts":[{"user":"u","energy_uj":-5}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "energy.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			k, damage := Open(path, Options{})
			if damage == nil || len(k.Devices()) != 0 || len(k.leases) != 0 {
				t.Fatalf("%v, %v", damage, k.Devices())
			}
			if _, err := os.Stat(damage.Aside); err != nil {
				t.Error(err)
			}
			idle(k)
			if err := k.write(); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"devices":{"GPU-a":{"total_uj":6,"idle_uj":1,"others_uj":2,"leases_uj":3,"last":{"at":"2026-01-31T11:59:59Z","power_watts":300,"shares":{"1":1}},` +
		`"counter":{"known":true,"joules":5,"at":"2026-01-31T11:59:59Z","booked":{"1":7},"owed_uj":3}}},"leases":{"1":{"id":"lease-1","energy_uj":3}},"accounts":[{"user":"ada","energy_uj":3}]}`))
	f.Add([]byte(`{"version":1}`))
	path := filepath.Join(f.TempDir(), "energy.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k, damage := Open(path, Options{})
		if damage != nil {
			if err := os.Remove(damage.Aside); err != nil { // the next one is to have room
				t.Fatal(err)
			}
		}
		train := held(1, "ada", "", "train.py")
		k.Recall([]*lease.Lease{train})
		for s := range 3 {
			sample := second(s, 500)
			sample.Slow = gpu.Slow{SlowTime: sample.Time, Energy: gpu.Some(float64(100 + 500*s))}
			k.Observe(card, sample, []Process{{10, train}})
		}
		k.Ended(train, noon.Add(3*time.Second))
		for uuid, u := range k.devices {
			if u.Total != u.Idle+u.Others+u.Leases {
				t.Errorf("the parts of %s do not add up: %+v", uuid, u)
			}
		}
		if err := k.write(); err != nil {
			t.Error(err)
		}
		if _, damage := Open(path, Options{}); damage != nil {
			t.Errorf("what it wrote, it does not read: %v", damage)
		}
	})
}

// A lease that ends before its first sample is observed is not met afterwards.
func TestLeaseThatEndsDuringItsFirstSample(t *testing.T) {
	k := New(Options{})
	l := held(1, "ada", "", "train.py")
	k.Ended(l, noon)
	k.Observe(card, second(1, 500), []Process{{10, l}})
	if len(k.leases) != 0 || k.Lease(1).Known() {
		t.Errorf("there are %d leases; it used %v", len(k.leases), k.Lease(1))
	}
}

// A user who makes up names takes no room from others.
func TestAccountsAreBounded(t *testing.T) {
	k := New(Options{})
	fence := uint64(0)
	use := func(user, name string) {
		fence++
		l := held(fence, user, "", name)
		at := int(fence) * 2
		k.Observe(card, second(at, 500), []Process{{10, l}})
		k.Observe(card, second(at+1, 500), []Process{{10, l}})
		k.Ended(l, noon.Add(time.Duration(at+1)*time.Second))
	}
	for i := range 2 * mostPerUser {
		use("mallory", fmt.Sprint("program-", i))
	}
	has := func(k *Meters, name string) bool {
		_, there := k.accounts[Account{User: "mallory", Name: name}]
		return there
	}
	last := fmt.Sprint("program-", 2*mostPerUser-1)
	if n := k.perUser["mallory"]; n != mostPerUser || has(k, "program-0") || !has(k, last) || !has(k, "") {
		t.Errorf("there are %d accounts: %v", n, k.accounts)
	}
	text, _, _, err := k.encode()
	var d document
	if err := errors.Join(err, json.Unmarshal(text, &d)); err != nil {
		t.Fatal(err)
	}
	again := New(Options{})
	if err := again.take(d); err != nil || !maps.Equal(again.accounts, k.accounts) {
		t.Errorf("it reads %v, %v", again.accounts, err)
	}
	again.account(Account{User: "mallory", Name: "new"})
	if oldest := fmt.Sprint("program-", mostPerUser+1); has(again, oldest) || !has(again, last) || !has(again, "new") {
		t.Errorf("after a restart and another one there are %v", again.accounts)
	}
	for i := range 2 * mostAccounts {
		use(fmt.Sprint("user-", i), "train.py")
	}
	use("mallory", "program-0")
	if n := len(k.accounts); n > mostAccounts+2 || len(k.gone) > mostGone || len(k.leases) != 0 {
		t.Errorf("there are %d accounts, %d ended leases, %d leases", n, len(k.gone), len(k.leases))
	}
	var all gpu.Joules
	for _, a := range k.Accounts() {
		all += a.Joules
	}
	if d := sum(t, k); rounded(all) != rounded(d.Leases) {
		t.Errorf("accounts have %v of %v", all, d.Leases)
	}
}

func BenchmarkObserve(b *testing.B) {
	k := New(Options{})
	here := []Process{{10, held(1, "ada", "", "")}, {20, held(2, "bob", "", "")}}
	sample := second(0, 500)
	b.ReportAllocs()
	for b.Loop() {
		sample.Time = sample.Time.Add(time.Second)
		k.Observe(card, sample, here)
	}
}

// What a lease draws now is its share of what the device draws beyond rest, and is
// not known for one that has left.
func TestDraw(t *testing.T) {
	k := New(Options{})
	from := idle(k)
	train := held(1, "ada", "", "train.py")
	for s := from; s <= from+60; s++ {
		k.Observe(card, second(s, 500), []Process{{10, train}})
	}
	if got := k.Draw(1, "GPU-a"); math.Abs(float64(got.Or(0))-400) > 2 {
		t.Errorf("it draws %v W, want 400", got)
	}
	if k.Draw(2, "GPU-a").Known() || k.Draw(1, "GPU-b").Known() {
		t.Error("a lease that nobody measured draws something")
	}
	k.Observe(card, second(from+61, 100), nil)
	k.Observe(card, second(from+62, 100), nil)
	if got := k.Draw(1, "GPU-a"); got.Known() {
		t.Errorf("a lease without processes draws %v W", got)
	}
}
