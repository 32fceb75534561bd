// Command growth measures how what the daemon does grows with what users can make large.
//
// It measures the same load with 1, 10, 100, 1,000 and 10,000 leases, users, waiting
// requests, events a second, tasks and series, with up to 1,000 launchers that have ended, parts of
// a launcher and parked leases of one user, and with up to 256 devices, as many as can be
// simulated. What counts is processor time of the daemon, which others on the machine do
// not change much. For each it draws a picture with logarithmic axes, and says the exponent:
// the slope of the upper part. It ends with 1 if something grows faster than n log n.
//
//	make bench-growth
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	if len(os.Args) == 5 && os.Args[1] == "wait" {
		exitWith(beWaiting(os.Args[2], os.Args[3], os.Args[4]))
	}
	var g ground
	flag.StringVar(&g.berth, "berth", "bin/berth", "the binary to measure")
	flag.IntVar(&g.most, "most", 10_000, "the largest number; the others are parts of it")
	flag.DurationVar(&g.rest, "rest", 5*time.Second, "how long the daemon is left alone at each number")
	flag.DurationVar(&g.each, "each", time.Second, "how long calls are repeated at each number")
	only := flag.String("only", "", "measure only these `SUBJECTS`, separated by commas: "+strings.Join(names(), ", "))
	pictures := flag.String("pictures", "", "the folder to draw pictures into; empty: draw none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitWith(run(ctx, &g, *only, *pictures))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// subject is something that can become many.
type subject struct {
	name    string
	axis    string // what is counted, under the picture
	bound   string // what keeps it from growing without end
	measure func(ctx context.Context, g *ground) ([]curve, error)
}

func subjects() []subject {
	return []subject{
		{"leases", "leases that stand", "1,024 of each user; memory and slots of the devices, where they ask for some", leases},
		{"users", "users with a lease each", "the users of the machine", users},
		{"waiting", "requests that wait", "256 of each user", waiting},
		{"events", "events a second, with one reader", "60 warnings a minute about each user; the rest is as quick as leases come and go", events},
		{"devices", "simulated devices", "the devices of the machine; the simulator has at most 256", devices},
		{"launchers", "launchers of one user that have ended, each with a process on two devices", "1,024 leases of each user", launchers},
		{"held", "leases of one launcher that has ended, on eight devices with 30 of its processes", "1,024 leases of each user", held},
		{"parts", "parts of a launcher, each with a process", "1,024 leases of each user", parts},
		{"parked", "parked leases of one user that want to return", "1,024 leases of each user", parked},
		{"tasks", "tasks of one user's job", "users.NAME.waiting_jobs, 10,000 by default", tasks},
		{"series", "series of the past", "256 leases, 50 users and 50 services have series of their own, and each device has some 25", series},
	}
}

func names() []string {
	var list []string
	for _, s := range subjects() {
		list = append(list, s.name)
	}
	return list
}

// ground is what all measurements share.
type ground struct {
	berth      string
	most       int
	rest, each time.Duration
}

// sizes returns the numbers at which to measure, the least first: more of them in the upper
// part, whose slope is the exponent.
func (g *ground) sizes() []int {
	var list []int
	for n := g.most; n >= 1; n /= 10 {
		list = append(list, n)
		if between := n * 3 / 10; n > g.most/100 && between > n/10 {
			list = append(list, between)
		}
	}
	slices.Reverse(list)
	return list
}

func run(ctx context.Context, g *ground, only, pictures string) error {
	machine, err := daemon.Machine(g.berth)
	if err != nil {
		return err
	}
	fmt.Println(machine)
	where := place()
	var faults []error
	for _, s := range subjects() {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		began := time.Now()
		curves, err := s.measure(ctx, g)
		if errors.Is(err, errSkipped) {
			fmt.Printf("\n%s: %v\n", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("\n%s, processor time of the daemon in ms (measured in %.0f s; bounded by: %s)\n", s.axis, time.Since(began).Seconds(), s.bound)
		for _, c := range curves {
			fmt.Printf("  %-46s", c.name)
			for _, p := range c.points {
				fmt.Printf(" %9s", fmt.Sprintf("%.0f:%.3g", p.n, p.cost.Seconds()*1e3))
			}
			e, known := exponent(c.points)
			switch {
			case !known:
				fmt.Println("   too few points")
				continue
			case e > c.kind.most():
				faults = append(faults, fmt.Errorf("%s: %s grows with the power %.2f of %s, and %.2f is allowed", s.name, c.name, e, s.axis, c.kind.most()))
			}
			fmt.Printf("   exponent %.2f (at most %.2f)\n", e, c.kind.most())
			figure.Say(fmt.Sprintf("growth, %s: %s", s.name, c.name), e, "exponent", figure.Less)
		}
		if pictures == "" {
			continue
		}
		path := filepath.Join(pictures, "growth-"+s.name+".svg")
		if err := os.WriteFile(path, []byte(draw(s, curves, where)), 0o644); err != nil {
			return err
		}
		fmt.Println("  " + path)
	}
	return errors.Join(faults...)
}

var errSkipped = errors.New("left out: only root can be many users")

// place says where and what was measured, in a few words.
func place() string {
	commit, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		commit = []byte("unknown commit")
	}
	return fmt.Sprintf("%d CPUs, %s, %s", runtime.NumCPU(), strings.TrimSpace(string(commit)), time.Now().UTC().Format(time.DateOnly))
}
