// Command many measures a daemon with many leases that nothing ends by itself: how long an
// acquire over REST takes while there are few and when there are many, how long `berth
// leases` takes, how soon the daemon answers after it was ended and after it was killed,
// and what it costs while nobody calls.
//
//	make build && go run ./test/bench/many
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	many := flag.Int("n", 50_000, "how many leases there are in the end")
	few := flag.Int("few", 1000, "with how many leases restarts are measured before that; 0: none")
	again := flag.Int("again", 5, "how often restarts and lists are measured; the median counts")
	rest := flag.Duration("rest", 20*time.Second, "how long the daemon is left alone")
	flag.Parse()
	if err := run(*berth, *few, *many, *again, *rest); err != nil {
		fmt.Fprintln(os.Stderr, "many:", err)
		os.Exit(1)
	}
}

func run(berth string, few, many, again int, rest time.Duration) error {
	machine, err := daemon.Machine(berth)
	if err != nil {
		return err
	}
	fmt.Println(machine)
	for _, n := range []int{few, many} {
		if n == 0 {
			continue
		}
		if err := measure(berth, n, again, n == many, rest); err != nil {
			return fmt.Errorf("with %d leases: %w", n, err)
		}
	}
	return nil
}

// measure fills a daemon with leases. With all, it measures more than restarts.
func measure(berth string, n, again int, all bool, rest time.Duration) error {
	d, err := daemon.Start(daemon.Setup{Berth: berth, Devices: "sim:dgx-h200"})
	if err != nil {
		return err
	}
	defer d.Close()
	m := &book{Daemon: d, berth: berth, n: n}
	fmt.Printf("\n%d named leases over REST\n", n)
	first, last, err := m.fill()
	if err != nil {
		return err
	}
	if all {
		m.say("acquire, in the first tenth", float64(first.Nanoseconds())/1e3, "µs")
		m.say("acquire, in the last tenth", float64(last.Nanoseconds())/1e3, "µs")
		if err := m.times("berth leases, to its end", again, m.list); err != nil {
			return err
		}
	}
	if err := m.times("restart after SIGTERM, to the first answer about a lease", again, func() (time.Duration, error) { d.End(); return m.begin() }); err != nil {
		return err
	}
	if err := m.times("restart after kill -9, to the first answer about a lease", again, func() (time.Duration, error) { d.Kill(); return m.begin() }); err != nil {
		return err
	}
	if all {
		return m.atRest(rest)
	}
	return nil
}

// book is a daemon with n leases.
type book struct {
	*daemon.Daemon
	berth string
	n     int
}

func (b *book) say(what string, value float64, unit string) {
	fmt.Printf("  %-60s %10.2f %s\n", what, value, unit)
	figure.Say(fmt.Sprintf("%d leases: %s", b.n, what), value, unit, figure.Less)
}

// times measures something several times, and says the median.
func (b *book) times(what string, again int, once func() (time.Duration, error)) error {
	var took []time.Duration
	for range again {
		t, err := once()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		took = append(took, t)
	}
	b.say(what, figure.Quantile(took, 0.5).Seconds()*1e3, "ms")
	return nil
}

// fill acquires the leases, and returns the median time of an acquire in the first tenth
// and in the last.
func (b *book) fill() (first, last time.Duration, err error) {
	took := make([]time.Duration, b.n)
	for i := range took {
		began := time.Now()
		if err := b.Ask("POST", "/api/leases", map[string]any{"id": name(i), "memory_mb": 1, "slots": 0, "binding": "named", "timeout_seconds": 0}, nil); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(began)
	}
	tenth := max(b.n/10, 1)
	return figure.Quantile(took[:tenth], 0.5), figure.Quantile(took[b.n-tenth:], 0.5), nil
}

func name(i int) string { return fmt.Sprintf("lease-%d", i) }

func (b *book) list() (time.Duration, error) {
	began := time.Now()
	err := exec.Command(b.berth, "--socket", b.Socket, "leases").Run()
	return time.Since(began), err
}

// begin starts the daemon again. Its first answer is about the last lease.
func (b *book) begin() (time.Duration, error) {
	return b.Begin("/api/leases/" + name(b.n-1))
}

// settle is how long a daemon has to finish what it began with.
const settle = 5 * time.Second

func (b *book) atRest(length time.Duration) error {
	time.Sleep(settle)
	share, err := b.Rest(length)
	if err != nil {
		return err
	}
	memory, err := b.Resident()
	b.say("at rest, of a core", share*100, "%")
	b.say("at rest, resident", memory, "MiB")
	return err
}
