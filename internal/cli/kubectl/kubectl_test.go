package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
)

// TestMain makes the test binary a kubectl, if KUBECTL_FAKE says so.
func TestMain(m *testing.M) {
	if how := os.Getenv("KUBECTL_FAKE"); how != "" {
		os.Exit(fake(how, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// fake plays kubectl: it notes its arguments, and does what it is asked to do.
func fake(how string, args []string) int {
	if calls, err := os.OpenFile(os.Getenv("KUBECTL_CALLS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(calls, strings.Join(args, " "))
		_ = calls.Close()
	}
	verb, text, _ := strings.Cut(how, ":")
	switch verb {
	case "print":
		fmt.Print(text)
	case "fail":
		fmt.Fprintln(os.Stderr, "W1116 a warning\n"+text)
		return 1
	case "job": // all is made but what stands behind the colon
		switch said, _ := io.ReadAll(os.Stdin); {
		case args[0] != "create":
		case strings.Contains(string(said), `"kind":"`+text+`"`):
			fmt.Fprintln(os.Stderr, "Error from server (Forbidden): no "+text)
			return 1
		default:
			fmt.Print(`{"metadata":{"uid":"u"}}`)
		}
	case "endless":
		for block := strings.Repeat(`{"node":"a",`, 1<<12); ; {
			if _, err := os.Stdout.WriteString(block); err != nil {
				return 1
			}
		}
	case "hang":
		time.Sleep(time.Hour)
	case "leave": // a child keeps the output open when kubectl has been killed
		self, _ := os.Executable()
		child := exec.Command(self)
		child.Env, child.Stdout = append(os.Environ(), "KUBECTL_FAKE=brief"), os.Stdout
		_ = child.Start()
		time.Sleep(time.Hour)
	case "brief":
		time.Sleep(20 * time.Second) // nobody ends it, so it ends by itself
	}
	return 0
}

// cluster returns a cluster whose kubectl is this binary, and the file with its calls.
func cluster(t *testing.T, how string, patience time.Duration) (*Cluster, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(t.TempDir(), "calls")
	c, err := New(Options{
		Program: self, Context: "lab", Patience: patience, Environ: append(os.Environ(), "KUBECTL_FAKE="+how, "KUBECTL_CALLS="+calls),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, calls
}

const patience = time.Minute

func TestPods(t *testing.T) {
	c, calls := cluster(t, `print:{"items":[
		{"metadata":{"name":"old","creationTimestamp":"2026-11-16T10:00:00Z"},"spec":{"nodeName":"n1"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
		{"metadata":{"name":"new","creationTimestamp":"2026-11-16T11:00:00Z"},"spec":{"nodeName":"n1"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}},
		{"metadata":{"name":"leaving","deletionTimestamp":"2026-11-16T11:00:00Z"},"spec":{"nodeName":"n2"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
		{"metadata":{"name":"coming"},"spec":{"nodeName":"n2","containers":[{"ports":[{"name":"other","containerPort":1},{"name":"http","containerPort":9999}]}]},"status":{"phase":"Running"}},
		{"metadata":{"name":"stuck"},"spec":{"nodeName":"n3"},"status":{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff"}}}]}},
		{"metadata":{"name":"evicted"},"spec":{"nodeName":"n4"},"status":{"phase":"Failed","reason":"Evicted"}},
		{"metadata":{"name":"meant"},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n5"]}]}]}}}},
			"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","message":"0/5 nodes are available"}]}},
		{"metadata":{"name":"../../secrets/x?y="},"spec":{"nodeName":"n6"},"status":{"phase":"Running"}},
		{"metadata":{"name":"nowhere"},"status":{}}]}`, patience)
	got, err := c.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Pod{
		{"n1", "old", 9480, ""},
		{"n2", "coming", 9999, ""},
		{"n3", "stuck", 9480, "its driver does not run: pod stuck is Pending (ImagePullBackOff)"},
		{"n4", "evicted", 9480, "its driver does not run: pod evicted is Failed (Evicted)"},
		{"n5", "meant", 9480, "its driver does not run: pod meant is Pending (0/5 nodes are available)"},
		{"n6", "../../secrets/x?y=", 9480, "its driver's pod has a name that Kubernetes does not give"},
		{"pod nowhere", "nowhere", 9480, "its driver does not run: pod nowhere is unknown"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, p := range got[2:] {
		if _, err := c.Node(t.Context(), p); err == nil || err.Error() != p.Away {
			t.Errorf("%s: %v", p.Node, err)
		}
	}
	said, _ := os.ReadFile(calls)
	if want := "get pods --namespace=berth-system --selector=app.kubernetes.io/name=berth-dra --output=json --request-timeout=60s --context=lab\n"; string(said) != want {
		t.Errorf("kubectl was called with\n%swant\n%s", said, want)
	}
}

// A node is called by the name that the API server gives it, whatever it says.
func TestNode(t *testing.T) {
	c, calls := cluster(t, `print:{"node":"another","driver_version":"1","at":"2026-11-16T10:00:00Z","down":"away","later":{"x":[1]},"leases":null}`, patience)
	got, err := c.Node(t.Context(), Pod{Node: "n1", Name: "berth-dra-x", Port: 9480})
	if err != nil {
		t.Fatal(err)
	}
	want := api.Node{Name: "n1", Driver: "1", At: time.Date(2026, 11, 16, 10, 0, 0, 0, time.UTC), Down: "away", Leases: []api.PodLease{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	said, _ := os.ReadFile(calls)
	if want := "get --raw /api/v1/namespaces/berth-system/pods/berth-dra-x:9480/proxy/node --request-timeout=60s --context=lab\n"; string(said) != want {
		t.Errorf("kubectl was called with\n%swant\n%s", said, want)
	}
}

// Whatever kubectl does, there is an answer: what is wrong, and what to do.
func TestFailures(t *testing.T) {
	for _, c := range []struct{ name, how, code, text, next string }{
		{"forbidden", `fail:Error from server (Forbidden): pods is forbidden: User "eve" cannot list resource "pods"`, "Forbidden", `pods is forbidden: User "eve" cannot list`, "list pods and to get pods/proxy"},
		{"unauthorized", "fail:error: You must be logged in to the server (Unauthorized)", "", "You must be logged in", "log in"},
		{"context", `fail:error: context "lab" does not exist`, "", `context "lab" does not exist`, "kubectl config get-contexts"},
		{"refused", "fail:The connection to the server localhost:8080 was refused - did you specify the right host or port?", "", "was refused", "kubectl cluster-info"},
		{"silent", "fail:", "", "warning", ""},
		{"no JSON", "print:<html>", "", "did not print JSON", "--output json"},
		{"no answer", "print:", "", "did not print JSON", ""},
		{"no pods", `print:{"items":[]}`, "", "no pod of berth's driver in the namespace berth-system", "berth help kubernetes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab, _ := cluster(t, c.how, patience)
			_, err := lab.Pods(t.Context())
			e := (*Error)(nil)
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Text, c.text) || !strings.Contains(e.Hint(), c.next) {
				t.Errorf("%#v", err)
			}
		})
	}
	pod := Pod{Node: "n1", Name: "berth-dra-x", Port: 9480}
	for _, c := range []struct{ name, how, text string }{
		{"endless", "endless", "the answer is larger than 4 MiB"},
		{"null", "print:null", "pod berth-dra-x answered with something else"},
		{"list", "print:[1,2]", "pod berth-dra-x answered with something else"},
		{"half", `print:{"node":"n1","leases":[`, "pod berth-dra-x answered with something else"},
		{"unreachable", "fail:Error from server (ServiceUnavailable): error trying to reach service: dial tcp 10.0.0.3:9480: connect: connection refused", "error trying to reach service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab, _ := cluster(t, c.how, patience)
			if _, err := lab.Node(t.Context(), pod); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %s", err, c.text)
			}
		})
	}
}

// A kubectl that hangs is ended, also if a child of it holds the output.
func TestDeadline(t *testing.T) {
	for _, how := range []string{"hang", "leave"} {
		t.Run(how, func(t *testing.T) {
			lab, _ := cluster(t, how, 100*time.Millisecond)
			if _, err := lab.Pods(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer within 100ms") {
				t.Errorf("%v", err)
			}
		})
	}
	lab, _ := cluster(t, "hang", patience)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user left"))
	if _, err := lab.Pods(ctx); err == nil || !strings.Contains(err.Error(), "the user left") {
		t.Errorf("%v", err)
	}
}

// Nodes together may not say more than this machine can hold.
func TestBudget(t *testing.T) {
	lab, _ := cluster(t, `print:{"node":"n1"}`, patience)
	pod := Pod{Node: "n1", Name: "x", Port: 9480}
	lab.budget.spent.Store(mostTogether)
	if _, err := lab.Node(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "not asked") {
		t.Errorf("%v", err)
	}
	lab.Begin()
	if _, err := lab.Node(t.Context(), pod); err != nil {
		t.Error(err)
	}
}

// An answer of 4 MiB may have two million values, each of which takes 500 bytes here.
func TestManyValues(t *testing.T) {
	many := func(n int) string { return "[" + strings.Repeat("{},", n) + "{}]" }
	for what, said := range map[string]string{
		"more than":  `{"node":"n1","leases":[` + strings.Repeat("0,", mostValues+1) + `0]}`,
		"10000":      `{"node":"n1","leases":` + many(mostLeases) + `}`,
		"512":        `{"node":"n1","status":{"gpus":` + many(mostDevices) + `}}`,
		"of pod pod": `{"node":"n1","leases":` + many(mostValues+1) + `}`,
	} {
		if _, err := read([]byte(said), Pod{Node: "n1", Name: "pod"}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%.40s…: %v", said, err)
		}
	}
	if n, err := read([]byte(`{"node":"n1","leases":`+many(mostLeases-1)+`,"status":{"gpus":`+many(mostDevices-1)+`}}`), Pod{Node: "n1"}); err != nil || len(n.Leases) != mostLeases {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "my kubectl")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value, namespace string
		want             []string
		err              string
	}{
		{program, "", []string{program}, ""},
		{"/bin/sh -c kubectl", "gpu-1", []string{"/bin/sh", "-c", "kubectl"}, ""},
		{filepath.Join(dir, "none"), "", nil, "cannot run kubectl"},
		{program, "../x", nil, "not the name of a namespace"},
		{program, "Berth", nil, "not the name of a namespace"},
	} {
		got, err := New(Options{Program: c.value, Namespace: c.namespace})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v, want %s", c.value, err, c.err)
			}
		case err != nil:
			t.Errorf("%q: %v", c.value, err)
		case !cmp.Equal(got.command, c.want):
			t.Errorf("%q: %q, want %q", c.value, got.command, c.want)
		}
	}
	t.Setenv("PATH", dir)
	if _, err := New(Options{}); err == nil || !strings.Contains(err.(*Error).Hint(), "KUBECTL") {
		t.Errorf("without kubectl: %v", err)
	}
}

func TestIsName(t *testing.T) {
	for text, want := range map[string]bool{
		"a": true, "berth-dra-x2x9p": true, "a.b-c": true, "9": true, strings.Repeat("a", 253): true,
		"": false, "-a": false, "a-": false, ".": false, "a/b": false, "a?b": false, "A": false, "é": false, "a b": false, "a\n": false, strings.Repeat("a", 254): false,
	} {
		if isName(text, 253, "-.") != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	if isName("a.b", 63, "-") {
		t.Error("a namespace has no dot")
	}
}

// FuzzNode holds the reading of answers to one thing: it ends in a node that can be
// written again, or in an error.
func FuzzNode(f *testing.F) {
	f.Add([]byte(`{"node":"n1","status":{"gpus":[{"trust":{"phase":"quarantine"}}]},"leases":[{"id":"\u001b[2J","parts":[{"memory_mb":-1}]}]}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		n, err := read(said, Pod{Node: "n1", Name: "x"})
		if err != nil {
			return
		}
		if _, err := json.Marshal(n); err != nil || n.Name != "n1" {
			t.Errorf("%+v: %v", n, err)
		}
	})
}

// A Job that cannot be used is removed: its pods would wait for ever for what is missing.
func TestJobWithoutItsTemplateIsRemoved(t *testing.T) {
	for kind, wrong := range map[string]bool{"ResourceClaimTemplate": true, "none": false} {
		c, calls := cluster(t, "job:"+kind, patience)
		_, err := c.BeginJob(t.Context(), Job{Name: "berth-x", Image: "worker", Pods: 1})
		said, _ := os.ReadFile(calls)
		if removed := strings.Contains(string(said), "delete job berth-x"); (err != nil) != wrong || removed != wrong {
			t.Errorf("%s is refused: %v, kubectl was called with\n%s", kind, err, said)
		}
	}
}
