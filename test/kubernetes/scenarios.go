package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Scenario is a row of the table of the proof.
type Scenario struct {
	Number  int
	Does    string
	Expects string
	Gates   string // feature gates, which need a cluster of their own
	Run     func(*H)
}

// Result is what became of a scenario.
type Result struct {
	Number  int
	Does    string
	Seconds float64
	Notes   []string
	Failed  string
}

// scenarios returns all scenarios, in the order of their numbers.
func scenarios() []Scenario {
	all := slices.Concat(sharing(), attribution(), health(), failures(), operations(), watching(), optimizing(), batches())
	slices.SortFunc(all, func(a, b Scenario) int { return a.Number - b.Number })
	return all
}

// limit is how long a scenario may take.
const limit = 15 * time.Minute

// inside runs scenarios in the namespaces of the cluster, and writes each result to a file.
func inside(ctx context.Context, place Place, chosen []Scenario, file string) error {
	h, err := open(ctx, place.scripts, place.run, place.root+"/kubernetes/deploy", os.Stdout)
	if err != nil {
		return err
	}
	if err := timed("import the images and apply the manifests", func() error { return h.try(ctx, h.prepare) }); err != nil {
		return err
	}
	results, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer results.Close()
	for _, s := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := json.NewEncoder(results).Encode(h.scenario(ctx, s)); err != nil {
			return err
		}
	}
	h.ctx = context.WithoutCancel(ctx)
	return h.try(h.ctx, h.quiet)
}

// serve starts daemons and drivers on all nodes, for people.
func serve(ctx context.Context, place Place) error {
	h, err := open(ctx, place.scripts, place.run, place.root+"/kubernetes/deploy", os.Stdout)
	if err != nil {
		return err
	}
	h.began, h.base = time.Now(), context.WithoutCancel(ctx) // the daemons outlive this program
	return h.try(ctx, func() {
		h.prepare()
		h.Machines(Machine{Node: 1, Devices: "sim:2"}, Machine{Node: 2, Devices: "sim:2"})
	})
}

// prepare imports the images of this checkout and applies the manifests.
func (h *H) prepare() {
	for _, n := range h.nodes {
		for _, archive := range archives() {
			text, err := n.On(os.Getenv("LAB")+"/bin/ctr", "-n", "k8s.io", "images", "import", h.run+"/images/"+archive).CombinedOutput()
			if err != nil {
				h.Fail("cannot import the image %s on %s: %v: %s", archive, n.Name, err, text)
			}
		}
	}
	h.install()
	h.leftovers()
}

// leftovers removes what a run that was interrupted has left in the cluster: pods end
// only while a driver runs on their node.
func (h *H) leftovers() {
	spaces, err := h.Cluster.CoreV1().Namespaces().List(h.ctx, metav1.ListOptions{})
	h.Must(err)
	spaces.Items = slices.DeleteFunc(spaces.Items, func(n corev1.Namespace) bool { return !strings.HasPrefix(n.Name, "scenario-") })
	if len(spaces.Items) == 0 {
		return
	}
	h.began = time.Now()
	h.Machines(Machine{Node: 1, Devices: "sim:1"}, Machine{Node: 2, Devices: "sim:1"})
	for _, n := range spaces.Items {
		h.Space = n.Name
		h.Step("remove %s, which an earlier run has left", n.Name)
		h.clean()
	}
}

// scenario runs one scenario, and afterwards asserts that the books are right and that
// nothing is left.
func (h *H) scenario(ctx context.Context, s Scenario) Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fmt.Fprintf(h.out, "\nScenario %d: %s\n          expected: %s\n", s.Number, s.Does, s.Expects)
	h.ctx, h.began, h.notes, h.slots, h.Space = ctx, time.Now(), nil, 0, fmt.Sprintf("scenario-%d-%d", s.Number, time.Now().Unix())
	err := h.try(ctx, func() {
		h.begin()
		s.Run(h)
		h.Books()
		h.Step("the leases are the allocated claims")
	})
	if err != nil {
		h.show(err)
	}
	if again := h.try(ctx, h.clean); again != nil {
		if err == nil {
			h.show(again)
		}
		err = errors.Join(err, again)
		h.ctx = context.WithoutCancel(ctx)
		_ = h.try(h.ctx, h.force)
	} else {
		h.Step("after cleanup: no lease, no CDI file, no state file, no foreign process")
	}
	r := Result{Number: s.Number, Does: s.Does, Seconds: time.Since(h.began).Seconds(), Notes: h.notes}
	verdict := "passed"
	if err != nil {
		r.Failed, verdict = err.Error(), "FAILED"
	}
	fmt.Fprintf(h.out, "Scenario %d %s after %.1f s\n", s.Number, verdict, r.Seconds)
	return r
}

// try runs a part of a scenario and returns what ended it.
func (h *H) try(ctx context.Context, part func()) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = f.error
		default:
			panic(f)
		}
	}()
	part()
	return nil
}

// show prints a failure, and what the cluster looks like at that moment.
func (h *H) show(err error) {
	fmt.Fprintf(h.out, "  FAILED: %v\n", err)
	for _, args := range [][]string{
		{"-n", h.Space, "get", "pods,resourceclaims", "-o", "wide"},
		{"-n", h.Space, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", "berth-system", "get", "pods", "-o", "wide"},
		{"-n", "berth-system", "logs", "--tail=25", "-l", "app.kubernetes.io/name=berth-dra", "--prefix"},
		{"get", "resourceslices", "-o", "yaml"},
	} {
		text, err := h.Kubectl(args...)
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintf(h.out, "    $ kubectl %s\n%s", strings.Join(args, " "), indent(last(text, 60)))
	}
	for _, n := range h.nodes {
		if n.daemon != nil {
			text, _ := n.On(h.run+"/bin/berth", "leases").CombinedOutput()
			fmt.Fprintf(h.out, "    $ berth leases # on %s; CDI files %v, state files %v\n%s", n.Name, n.CDI(), n.State(), indent(string(text)))
		}
	}
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("      " + line)
	}
	if !strings.HasSuffix(b.String(), "\n") {
		b.WriteString("\n")
	}
	return b.String()
}

// last returns the last lines of a text.
func last(text string, n int) string {
	all := slices.Collect(strings.Lines(text))
	return strings.Join(all[max(0, len(all)-n):], "")
}

// table prints what became of all scenarios.
func table(w io.Writer, all []Result, took time.Duration) {
	fmt.Fprintf(w, "\n%-3s %-7s %8s  %s\n", "#", "result", "seconds", "scenario, and what was measured (!: longer than expected)")
	passed := 0
	slices.SortFunc(all, func(a, b Result) int { return a.Number - b.Number })
	for _, r := range all {
		verdict := "passed"
		if r.Failed != "" {
			verdict = "FAILED"
		} else {
			passed++
		}
		fmt.Fprintf(w, "%-3d %-7s %8.1f  %s\n", r.Number, verdict, r.Seconds, r.Does)
		for line := range slices.Chunk(r.Notes, 3) {
			fmt.Fprintf(w, "%-20s    %s\n", "", strings.Join(line, " · "))
		}
		if r.Failed != "" {
			first, _, _ := strings.Cut(r.Failed, "\n")
			fmt.Fprintf(w, "%-20s    FAILED: %s\n", "", first)
		}
	}
	fmt.Fprintf(w, "%d of %d scenarios passed in %.0f s\n", passed, len(all), took.Seconds())
}
