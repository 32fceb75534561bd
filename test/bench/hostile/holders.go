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

// pair is a process that holds a lease, and its child.
type pair struct{ Holder, Child int }

// askHolders asks for a number of processes that hold a lease each.
type askHolders struct {
	Door  door
	Count int
}

// startHolders starts processes with a child each, and acquires a lease for each.
func startHolders(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askHolders
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	web := asked.Door.client(10 * time.Second)
	var pairs []pair
	for range asked.Count {
		cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			return err
		}
		heir, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		c := call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"memory_mb":10,"slots":0,"binding":"process","pid":%d}`, cmd.Process.Pid)}
		if _, err := c.make(ctx, asked.Door, web); err != nil {
			return err
		}
		pairs = append(pairs, pair{cmd.Process.Pid, heir})
		go func() { _, _ = io.Copy(io.Discard, out); _ = cmd.Wait() }()
	}
	say(pairs)
	<-ctx.Done()
	return nil
}
