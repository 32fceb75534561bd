// Command e2e starts a real cluster on this machine, runs the driver of this checkout
// in it, and passes the scenarios of the driver: each does what a user or a failure
// would do and asserts the result in the container and in the ledger of the daemon.
//
//	e2e [-scenario 4,5] [-keep]    all scenarios, or some; make k8s
//	e2e up                         a cluster for people; make k8s-up
//	e2e list                       what the scenarios are
//
// It needs root. harness.go says how to add a scenario.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb := "test"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	which := flags.String("scenario", "", "numbers of scenarios, separated by commas; default: all")
	keep := flags.Bool("keep", false, "leave the cluster running")
	checkout := flags.String("root", "../..", "the root of the repository")
	results := flags.String("results", "", "file for the results of the scenarios inside")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*which)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(*checkout)
	if err != nil {
		return err
	}
	place := newPlace(root)
	switch verb {
	case "list":
		for _, s := range chosen {
			fmt.Printf("%2d  %s\n      expected: %s\n", s.Number, s.Does, s.Expects)
		}
		return nil
	case "inside":
		return inside(ctx, place, chosen, *results)
	case "serve":
		return serve(ctx, place)
	case "up":
		if err := place.build(ctx); err != nil {
			return err
		}
		if err := place.up(ctx, ""); err != nil {
			return err
		}
		if err := place.in(ctx, "serve", "-root", root); err != nil {
			return err
		}
		fmt.Printf("\nThe cluster runs. %[1]s/kubectl get pods -A; %[1]s/on node-1 berth status; make k8s-down ends it.\n", place.scripts)
		return nil
	case "test":
		return test(ctx, place, chosen, *keep)
	}
	return fmt.Errorf("there is no %q: e2e, e2e up or e2e list", verb)
}

// choose returns the scenarios with the numbers in text; all of them if it is empty.
func choose(text string) ([]Scenario, error) {
	all := scenarios()
	if text == "" {
		return all, nil
	}
	var some []Scenario
	for word := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(strings.TrimSpace(word))
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Number == number })
		if err != nil || i < 0 {
			return nil, fmt.Errorf("there is no scenario %q: e2e list prints them", word)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// test runs scenarios, those with gates of their own in clusters of their own, and
// prints the table.
func test(ctx context.Context, place Place, chosen []Scenario, keep bool) error {
	groups := map[string][]string{}
	var order []string
	for _, s := range chosen {
		if groups[s.Gates] == nil {
			order = append(order, s.Gates)
		}
		groups[s.Gates] = append(groups[s.Gates], strconv.Itoa(s.Number))
	}
	begin := time.Now()
	if err := place.build(ctx); err != nil {
		return err
	}
	var all []Result
	var failed error
	places := map[string]Place{}
	for _, gates := range order {
		p := place
		if gates != "" {
			p.run += "-gates"
			if err := place.tool(ctx, ".", "", "bash", "-c", `mkdir -p "$1" && cp -r --remove-destination "$0/bin" "$0/images" "$1"`, place.run, p.run); err != nil {
				return err
			}
		}
		places[gates] = p
	}
	for _, gates := range order {
		p := places[gates]
		got, err := p.group(ctx, gates, strings.Join(groups[gates], ","), keep)
		all = append(all, got...)
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	if !place.runs() { // its programs were for the others
		_, _ = os.RemoveAll(place.run+"/bin"), os.RemoveAll(place.run+"/images")
		_ = os.Remove(place.run)
	}
	table(os.Stdout, all, time.Since(begin))
	for _, r := range all {
		if r.Failed != "" {
			failed = errors.Join(failed, fmt.Errorf("scenario %d failed", r.Number))
		}
	}
	if failed == nil && len(all) < len(chosen) {
		failed = fmt.Errorf("%d of %d scenarios ran", len(all), len(chosen))
	}
	return failed
}

// group runs scenarios in one cluster.
func (p Place) group(ctx context.Context, gates, numbers string, keep bool) (results []Result, err error) {
	keep = keep || p.runs()
	if err := p.up(ctx, gates); err != nil {
		return nil, errors.Join(err, p.down(keep, true))
	}
	file := p.run + "/results.json"
	_ = os.Remove(file)
	ran := p.in(ctx, "inside", "-root", p.root, "-scenario", numbers, "-results", file)
	if text, err := os.ReadFile(file); err == nil {
		for line := range strings.Lines(string(text)) {
			var r Result
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return results, err
			}
			results = append(results, r)
		}
	}
	bad := ran != nil || slices.ContainsFunc(results, func(r Result) bool { return r.Failed != "" })
	return results, errors.Join(ran, p.down(keep, bad))
}

// runs reports whether the cluster runs.
func (p Place) runs() bool {
	pid, err := os.ReadFile(p.run + "/init.pid")
	if err != nil {
		return false
	}
	line, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline")
	return err == nil && strings.Contains(string(line), "inside.sh")
}

// A Place is where things are.
type Place struct{ root, scripts, lab, run string }

func newPlace(root string) Place {
	lab := os.Getenv("LAB")
	if lab == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = "/root/.cache"
		}
		lab = cache + "/berth-k8s-1.36.3"
	}
	run := os.Getenv("RUN")
	if run == "" {
		run = lab + "/run"
	}
	return Place{root: root, scripts: root + "/test/kubernetes/cluster", lab: lab, run: run}
}

// script runs a script of the cluster.
func (p Place) script(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, "bash", append([]string{p.scripts + "/" + name}, args...)...)
	cmd.Env = append(append(os.Environ(), "LAB="+p.lab, "RUN="+p.run), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The whole group: nsenter would end without the program that it runs.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}

// up starts the cluster unless it runs.
func (p Place) up(ctx context.Context, gates string) error {
	if p.runs() {
		fmt.Println("A cluster runs in", p.run, "already.")
		return nil
	}
	return timed("start a cluster of Kubernetes 1.36.3 with two nodes"+map[bool]string{true: ", " + gates}[gates != ""], func() error {
		return p.script(ctx, []string{"GATES=" + gates, "NODES=" + strconv.Itoa(nodes)}, "up.sh")
	})
}

// in runs this program in the namespaces of the cluster.
func (p Place) in(ctx context.Context, args ...string) error {
	return p.script(ctx, nil, "in", append([]string{p.run + "/bin/e2e"}, args...)...)
}

// down ends the cluster unless it is to stay, and keeps its logs if something failed.
func (p Place) down(stays, bad bool) error {
	if stays {
		return nil
	}
	var env []string
	if bad {
		logs := fmt.Sprintf("%s/logs/%s", p.lab, time.Now().Format("2006-01-02-150405"))
		env = []string{"LOGS=" + logs}
		fmt.Println("The logs of the cluster are kept in", logs)
	}
	return timed("end the cluster", func() error { return p.script(context.Background(), env, "down.sh") })
}

// timed prints what is done, and how long it took.
func timed(what string, do func() error) error {
	begin := time.Now()
	err := do()
	fmt.Printf("%s: %.1f s\n", what, time.Since(begin).Seconds())
	return err
}
