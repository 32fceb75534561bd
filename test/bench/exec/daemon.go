package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// daemon is a berth daemon with four simulated devices.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	socket string
}

func start(berth string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, socket: filepath.Join(dir, "s")}
	d.cmd = exec.Command(berth, "serve", "--devices", "sim:4", "--state-dir", filepath.Join(dir, "state"), "--socket", d.socket, "--listen", "")
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", d.socket); err == nil {
			return d, conn.Close()
		}
	}
	d.stop()
	return nil, errors.New("the daemon does not answer within 10 s")
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(os.Interrupt)
	_ = d.cmd.Wait()
	// The server of task-spooler lives in the folder of its socket.
	tsp := exec.Command("tsp", "-K")
	tsp.Env = append(os.Environ(), "TS_SOCKET="+filepath.Join(d.dir, "tsp"))
	_ = tsp.Run() // fails if tsp is not installed or never ran
	_ = os.RemoveAll(d.dir)
}
