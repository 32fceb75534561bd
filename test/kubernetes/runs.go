package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// batches returns the scenario about batches in pods.
func batches() []Scenario {
	return []Scenario{
		{Number: 22, Does: "berth run --kubernetes with four pods: a pod is killed, kubelet restarts, a node is drained, the runner is killed with -9 and starts again; then a runner that never comes back",
			Expects: "every record comes out once and in order; the Job goes with the run, and by its time to live without one", Run: runInPods},
	}
}

// records is how many records a run has.
const records = 40_000

// A runner is a berth run that runs.
type runner struct {
	h      *H
	cmd    *exec.Cmd
	said   lockedBuffer
	ended  chan struct{}
	failed error
}

// startRun starts berth run with pods of the scenario's namespace.
func (h *H) startRun(folder, output string) *runner {
	r := &runner{h: h, ended: make(chan struct{})}
	r.cmd = exec.CommandContext(h.base, h.run+"/bin/berth", "run", "--kubernetes", "--image", image, "--berth-image", "ghcr.io/berth-gpu/berth:dev", "--namespace", h.Space,
		"--workers", "4", "--memory", "20GiB", "--batch", "50", "--ordered", "--input", folder+"/in.jsonl", "--output", output, "--", "/work", "batch", "8ms")
	r.cmd.Env = append(os.Environ(), "KUBECTL="+os.Getenv("LAB")+"/bin/kubectl", "KUBECONFIG="+h.run+"/admin.kubeconfig", "HOME="+folder, "XDG_STATE_HOME="+folder)
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	h.Must(r.cmd.Start())
	go func() { r.failed = r.cmd.Wait(); close(r.ended) }()
	return r
}

// kill ends the runner with SIGKILL, and leaves what it has started to itself.
func (r *runner) kill() {
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// workersOn returns the pods of the run that are ready, by node.
func (h *H) workersOn() (all map[string][]string, err error) {
	list, err := h.Cluster.CoreV1().Pods(h.Space).List(h.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth-run"})
	all = map[string][]string{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			all[p.Spec.NodeName] = append(all[p.Spec.NodeName], p.Name)
		}
	}
	return all, err
}

// four is true when four pods of the run work.
func (h *H) four() error {
	all, err := h.workersOn()
	if n := len(all["node-1"]) + len(all["node-2"]); err == nil && n != 4 {
		err = fmt.Errorf("%d pods work", n)
	}
	return err
}

// written is true when a run has written at least so many lines.
func (r *runner) written(output string, want int) Condition {
	return func() error {
		select {
		case <-r.ended:
			r.h.Fail("the run ended: %v: %s", r.failed, last(r.said.String(), 10))
		default:
		}
		if n := lineCount(output); n < want {
			return fmt.Errorf("%d records are done: %s", n, last(r.said.String(), 2))
		}
		return nil
	}
}

// lineCount returns how many lines a run has written, into the output or into the file
// that becomes it.
func lineCount(output string) (most int) {
	for _, path := range []string{output, output + ".berth/outcomes"} {
		if file, err := os.Open(path); err == nil {
			n := 0
			for in := bufio.NewScanner(file); in.Scan(); n++ {
			}
			_ = file.Close()
			most = max(most, n)
		}
	}
	return most
}

func runInPods(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"}, Machine{Node: 2, Devices: "sim:1"})
	defer func() { _, _ = h.Kubectl("uncordon", "node-1", "node-2") }()
	folder, err := os.MkdirTemp("", "berth-run-")
	h.Must(err)
	defer os.RemoveAll(folder)
	var input strings.Builder
	for n := range records {
		fmt.Fprintf(&input, "{\"n\":%d}\n", n)
	}
	h.Must(os.WriteFile(folder+"/in.jsonl", []byte(input.String()), 0o644))
	output := folder + "/out.jsonl"

	run := h.startRun(folder, output)
	h.Eventually("four pods work", h.four)
	h.Eventually("records are done", run.written(output, 500))
	all, err := h.workersOn()
	h.Must(err)
	victim := append(all["node-1"], all["node-2"]...)[0]
	h.Step("kill the pod %s", victim)
	_, err = h.Kubectl("-n", h.Space, "delete", "pod", victim, "--force", "--grace-period=0", "--wait=false")
	h.Must(err)
	h.Eventually("the Job controller has made another one", h.four)
	h.Step("restart the kubelet of node-1")
	h.Node(1).Kubelet()
	h.Eventually("the run goes on", run.written(output, lineCount(output)+500))
	h.Step("drain node-2")
	_, err = h.Kubectl("drain", "node-2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
	h.Must(err)
	h.Eventually("four pods work on node-1", func() error {
		all, err := h.workersOn()
		if err == nil && len(all["node-1"]) != 4 {
			err = fmt.Errorf("%d do", len(all["node-1"]))
		}
		return err
	})
	h.Eventually("the run goes on", run.written(output, lineCount(output)+500))
	h.Step("kill the runner with -9, after %d of %d records", lineCount(output), records)
	run.kill()
	_, err = h.Kubectl("uncordon", "node-2")
	h.Must(err)
	run = h.startRun(folder, output)
	h.Eventually("the same command ends", func() error {
		select {
		case <-run.ended:
			return nil
		default:
			return fmt.Errorf("%d records are done", lineCount(output))
		}
	})
	if run.failed != nil {
		h.Fail("the run failed: %v: %s", run.failed, last(run.said.String(), 10))
	}
	if !strings.Contains(run.said.String(), "of an earlier run is still there, and is used") {
		h.Fail("the second runner did not use the Job of the first: %s", last(run.said.String(), 20))
	}
	got, err := os.ReadFile(output)
	h.Must(err)
	if string(got) != input.String() {
		h.Fail("the output has %d lines of %d, or others, or in another order", strings.Count(string(got), "\n"), records)
	}
	h.Step("%d records came out once and in order", records)
	h.Within(20*time.Second, "the Job and its pods are gone", All(h.jobs(0), h.noWorkers))
	h.Eventually("no lease is left", All(h.Leases(1, 0), h.Leases(2, 0)))

	h.Step("a second run, whose runner is killed and never comes back")
	left := h.startRun(folder, folder+"/left.jsonl")
	h.Eventually("its pods work", h.four)
	h.Eventually("records are done", left.written(folder+"/left.jsonl", 100))
	left.kill()
	h.Within(4*time.Minute, "the Job is gone by its time to live", h.jobs(0))
	templates, err := h.Cluster.ResourceV1().ResourceClaimTemplates(h.Space).List(h.ctx, metav1.ListOptions{})
	h.Must(err)
	if len(templates.Items) > 1 {
		h.Fail("%d claim templates are left", len(templates.Items))
	}
	h.Eventually("no lease is left", All(h.Leases(1, 0), h.Leases(2, 0)))
}

// jobs is true when the namespace has so many Jobs.
func (h *H) jobs(want int) Condition {
	return func() error {
		list, err := h.Cluster.BatchV1().Jobs(h.Space).List(h.ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != want {
			err = fmt.Errorf("there are %d Jobs", len(list.Items))
		}
		return err
	}
}

// noWorkers is true when no pod of a run is there.
func (h *H) noWorkers() error {
	list, err := h.Cluster.CoreV1().Pods(h.Space).List(h.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth-run"})
	if err == nil && len(list.Items) > 0 {
		err = errors.New("pod " + list.Items[0].Name + " is there")
	}
	return err
}
