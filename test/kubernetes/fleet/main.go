// Command fleet measures what the driver's slices and claims cost the control
// plane of a large cluster.
//
// It makes nodes that exist in the API only (kwok keeps them and their pods
// alive), publishes their slices with the package and the controller that the
// driver uses, makes pods with and without claims, and says how long the
// scheduler takes. It checks what must always hold, and fails if it does not:
// no device gives more than it has, every claim that fits is allocated, a taint
// evicts the pods of its device and no others, and nobody writes a slice while
// nothing changes.
//
// fleet.sh starts it together with a control plane of its own.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// options are the flags of the program.
type options struct {
	nodes, gpus, pods, paced, taints, random int
	rest, timeout                            time.Duration
	seed                                     uint64
	run, out, commit, versions, limits       string
}

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 200, "how many nodes to make")
	flag.IntVar(&o.gpus, "gpus", 8, "how many GPUs each node has")
	flag.IntVar(&o.pods, "pods", 3000, "how many pods to create at once, first without and then with claims")
	flag.IntVar(&o.paced, "paced", 300, "how many pods to create at half the rate that the scheduler reached; 0 leaves it out")
	flag.IntVar(&o.taints, "taints", 200, "how many devices to taint at once, of those that have claims; 0 leaves it out")
	flag.IntVar(&o.random, "random", 400, "how many random claims to make on four nodes of their own; 0 leaves it out")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long to watch the cluster at rest; 0 leaves it out")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "when to give up")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of everything that is random")
	flag.StringVar(&o.run, "run", "", "folder with the process ids of the control plane (pids/NAME), for their memory")
	flag.StringVar(&o.out, "out", "", "file to write the results to, besides the standard output")
	flag.StringVar(&o.commit, "commit", "unknown", "commit of berth, for the results")
	flag.StringVar(&o.versions, "versions", "", "versions of the control plane, for the results")
	flag.StringVar(&o.limits, "limits", "raised", "whether the scheduler and the controller manager run with their default limits of requests, for the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	err := measure(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// measure runs every part and writes the results. What it has measured until an error
// is written, too.
func measure(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig in KUBECONFIG: %w", err)
	}
	config.QPS, config.ContentType, config.AcceptContentTypes = -1, "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	klog.LogToStderr(false) // the program says itself what fails
	klog.SetOutput(io.Discard)
	f := &fleet{o: o, client: client, began: time.Now(), usage: usage{run: o.run}}
	failed := f.all(ctx)
	var text bytes.Buffer
	f.write(&text, failed)
	fmt.Print("\n", text.String())
	if o.out != "" {
		if err := os.WriteFile(o.out, text.Bytes(), 0o644); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// fleet is a cluster of nodes that exist in the API only, and what was measured there.
type fleet struct {
	o      options
	client kubernetes.Interface
	began  time.Time
	nodes  []*node
	seen   *seen
	usage  usage
	result results

	computed, changed atomic.Int64 // how often a node computed its devices, and found them different
}

// say prints one line about what happens, with the time since the start.
func (f *fleet) say(format string, a ...any) {
	fmt.Printf("%7.1fs  %s\n", time.Since(f.began).Seconds(), fmt.Sprintf(format, a...))
}

// all runs the parts one after the other.
func (f *fleet) all(ctx context.Context) error {
	var err error
	if f.seen, err = watchAll(ctx, f.client); err != nil {
		return err
	}
	f.usage.mark("control plane, empty")
	for _, part := range []func(context.Context) error{f.setUp, f.bursts, f.atRest, f.taintMany, f.clear, f.pace, f.randomClaims} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	f.usage.mark("at the end")
	return f.verdict()
}

// until waits until ok, and says the progress every ten seconds.
func (f *fleet) until(ctx context.Context, what string, progress func() (done, of int)) error {
	said := time.Now()
	for {
		done, of := progress()
		if done >= of {
			return nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			f.say("  %s: %d of %d", what, done, of)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, %d of %d: %w", what, done, of, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
