package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// pair is a process that holds leases, and its first child.
type pair struct {
	Holder, Child int
	Others        []int // its other children
}

// askHolders asks for a number of processes that hold a lease each. The numbers that are 0
// mean 1.
type askHolders struct {
	Door     door
	Count    int
	Leases   int // of each process
	GPUs     int // of each lease
	Children int // of each process
}

// startHolders starts processes with children, and acquires leases for them.
func startHolders(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askHolders
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	web := asked.Door.client(10 * time.Second)
	var pairs []pair
	for range asked.Count {
		cmd := exec.Command("sh", "-c", strings.Repeat("sleep 600 & echo $!; ", max(asked.Children, 1))+"wait")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		p := pair{Holder: cmd.Process.Pid}
		lines := bufio.NewReader(out)
		for range max(asked.Children, 1) {
			line, err := lines.ReadString('\n')
			if err != nil {
				return err
			}
			child, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				return err
			}
			p.Others = append(p.Others, child)
		}
		p.Child, p.Others = p.Others[0], p.Others[1:]
		c := call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"memory_mb":10,"gpus":%d,"slots":0,"binding":"process","pid":%d}`, max(asked.GPUs, 1), p.Holder)}
		for range max(asked.Leases, 1) {
			if _, err := c.make(ctx, asked.Door, web); err != nil {
				return err
			}
		}
		pairs = append(pairs, p)
		go func() { _, _ = io.Copy(io.Discard, out); _ = cmd.Wait() }()
	}
	say(pairs)
	<-ctx.Done()
	return nil
}
