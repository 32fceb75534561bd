// Command work is the program in the containers of the scenarios.
//
// It prints what it sees as one line of JSON, uses memory of simulated GPUs,
// and waits:
//
//	work [--use MIB] [--slot N] [--gpu UUID] [--guests DIR] [--lease ID --fence N] [--ignore-term]
//	work batch DELAY               a worker of berth run, which takes a while for each record
//	work use MIB [--guests DIR]    what the container uses from now on; for kubectl exec
//
// A second process uses the memory, because the file by which the simulator knows a
// process is named after its pid inside the container, and no two containers of a
// node may have the same one: a container with the slot N takes a pid from 64·N on.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Report is what a container sees.
type Report struct {
	UID       int               `json:"uid"`
	Cgroup    string            `json:"cgroup"`
	Namespace string            `json:"pid_namespace"`
	Env       map[string]string `json:"env"`
}

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "use":
		err = change(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "batch":
		err = batch(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "hold":
		err = hold(os.Args[2:])
	default:
		err = work(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "work:", err)
		os.Exit(1)
	}
}

// work is the first process of the container.
func work(args []string) error {
	flags := flag.NewFlagSet("work", flag.ContinueOnError)
	use := flags.Int("use", 0, "MiB to use on each GPU")
	slot := flags.Int("slot", 0, "which pids the container takes")
	gpus := flags.String("gpu", os.Getenv("CUDA_VISIBLE_DEVICES"), "UUIDs of the GPUs")
	guests := flags.String("guests", "/guests", "folder of the simulator")
	lease := flags.String("lease", "", "id of a lease to claim")
	fence := flags.String("fence", "", "fence of that lease")
	stubborn := flags.Bool("ignore-term", false, "ignore SIGTERM")
	if err := flags.Parse(args); err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	line, err := json.Marshal(look())
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	var child *exec.Cmd
	ended := make(chan error, 1)
	if *slot > 0 {
		if err := burn(64 * *slot); err != nil {
			return err
		}
		child = exec.Command("/proc/self/exe", "hold", *guests, *gpus, strconv.Itoa(*use), strconv.FormatBool(*stubborn))
		child.Stdout, child.Stderr, child.Env = os.Stdout, os.Stderr, os.Environ()
		if *lease != "" {
			child.Env = append(child.Env, "BERTH_LEASE="+*lease, "BERTH_FENCE="+*fence)
		}
		if err := child.Start(); err != nil {
			return err
		}
		go func() { ended <- child.Wait() }()
	}
	for {
		select {
		case <-signals:
			if !*stubborn {
				return nil // the kernel ends the child with the namespace
			}
		case err := <-ended:
			return fmt.Errorf("the process that uses the GPU ended: %w", err)
		}
	}
}

// batch answers each record with itself: the protocol of docs/reference/batch-protocol.md.
func batch(args []string) error {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.NewFile(4, "out"))
	if err := out.Encode(map[string]any{"type": "ready", "protocol": 1}); err != nil {
		return err
	}
	in := json.NewDecoder(os.NewFile(3, "in"))
	for {
		var m struct {
			Type    string
			ID      json.RawMessage
			Records []json.RawMessage
		}
		if err := in.Decode(&m); err != nil || m.Type == "bye" {
			return nil // the runner is gone
		}
		if m.Type != "batch" {
			continue
		}
		time.Sleep(time.Duration(len(m.Records)) * delay)
		if err := out.Encode(map[string]any{"type": "result", "id": m.ID, "outcomes": m.Records}); err != nil {
			return err
		}
	}
}

func look() Report {
	r := Report{UID: os.Getuid(), Env: map[string]string{}}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		r.Env[name] = value
	}
	cgroup, _ := os.ReadFile("/proc/self/cgroup")
	r.Cgroup = string(cgroup)
	r.Namespace, _ = os.Readlink("/proc/self/ns/pid")
	return r
}

// burn starts processes that end at once until the next pid is at least first.
func burn(first int) error {
	for pid := 0; pid < first-1; {
		child, _, errno := syscall.RawSyscall(syscall.SYS_FORK, 0, 0, 0)
		switch {
		case errno != 0:
			return fmt.Errorf("fork: %w", errno)
		case child == 0:
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
		pid = int(child)
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			return fmt.Errorf("wait: %w", err)
		}
	}
	return nil
}

// hold is the process that uses the memory: hold GUESTS UUIDS MIB IGNORE-TERM.
func hold(args []string) error {
	if args[3] == "true" {
		signal.Ignore(syscall.SIGTERM)
	}
	mib, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if err := use(args[0], args[1], os.Getpid(), mib); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour)
	}
}

// change rewrites what the container uses: MIB [--guests DIR].
func change(args []string) error {
	mib, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range all {
		line, err := os.ReadFile(file)
		words := strings.Split(string(line), "\x00")
		if err != nil || len(words) < 5 || words[1] != "hold" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return err
		}
		return use(words[2], words[3], pid, mib)
	}
	return fmt.Errorf("no process of this container uses a GPU: give it a slot")
}

// use writes the files by which the simulator knows what a process uses.
func use(guests, uuids string, pid, mib int) error {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the third on
	born, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"memory_mb": mib, "pid_namespace": namespace, "start_time": born})
	if err != nil {
		return err
	}
	for uuid := range strings.SplitSeq(uuids, ",") {
		part := filepath.Join(guests, fmt.Sprintf("%s.%d.part", uuid, pid))
		if err := os.WriteFile(part, text, 0o644); err != nil {
			return err
		}
		if err := os.Rename(part, filepath.Join(guests, uuid, strconv.Itoa(pid))); err != nil {
			return err
		}
	}
	return nil
}
