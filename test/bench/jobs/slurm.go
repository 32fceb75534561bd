package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// slurm is a cluster of this machine alone, in a folder of its own. Its node has more CPUs
// than the machine, so that no job waits for the end of the one before.
type slurm struct {
	dir     string
	env     []string
	daemons []*exec.Cmd
}

// slurmConfig is what Slurm needs to run here. Everything else is as Slurm has it.
const slurmConfig = `ClusterName=bench
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.sock
CredType=cred/munge
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// errNoSlurm says why there is no Slurm.
var errNoSlurm = errors.New("not installed (apt-get install slurm-wlm)")

// startSlurm starts Slurm, and waits until its node takes jobs.
func startSlurm() (*slurm, error) {
	for _, program := range []string{"munged", "slurmctld", "slurmd", "srun", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, errNoSlurm
		}
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("its daemons need root")
	}
	dir, err := os.MkdirTemp("", "berth-bench-slurm-")
	if err != nil {
		return nil, err
	}
	s := &slurm{dir: dir, env: append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))}
	if err := s.start(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *slurm) start() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".")
	ports, err := freePorts()
	if err != nil {
		return err
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // never fails
	in := func(name string) string { return filepath.Join(s.dir, name) }
	if err := errors.Join(
		os.Chmod(s.dir, 0o755), os.Mkdir(in("state"), 0o755), os.Mkdir(in("spool"), 0o755), os.WriteFile(in("munge.key"), key, 0o600),
		os.WriteFile(in("slurm.conf"), fmt.Appendf(nil, slurmConfig, host, s.dir, ports[0], ports[1]), 0o644),
	); err != nil {
		return err
	}
	for _, daemon := range [][]string{
		{"munged", "--foreground", "--force", "--key-file=" + in("munge.key"), "--socket=" + in("munge.sock"), "--pid-file=" + in("munged.pid"), "--log-file=" + in("munged.log"), "--seed-file=" + in("munge.seed")},
		{"slurmctld", "-D"},
		{"slurmd", "-D"},
	} {
		cmd := s.command(daemon...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for the bench, which stops them
		if err := cmd.Start(); err != nil {
			return err
		}
		s.daemons = append(s.daemons, cmd)
	}
	const within = 30 * time.Second
	for began := time.Now(); time.Since(began) < within; time.Sleep(100 * time.Millisecond) {
		if state, err := s.command("sinfo", "--noheader", "--format=%T").Output(); err == nil && strings.TrimSpace(string(state)) == "idle" {
			return nil
		}
	}
	return fmt.Errorf("its node takes no jobs within %v", within)
}

func freePorts() (ports [2]int, err error) {
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// stop ends Slurm, the last daemon first, and removes its folder.
func (s *slurm) stop() {
	for len(s.daemons) > 0 {
		last := s.daemons[len(s.daemons)-1]
		s.daemons = s.daemons[:len(s.daemons)-1]
		_ = last.Process.Signal(syscall.SIGTERM) // it may have ended
		late := time.AfterFunc(10*time.Second, func() { _ = last.Process.Kill() })
		_ = last.Wait()
		late.Stop()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *slurm) command(words ...string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Dir = s.env, "/"
	return cmd
}

// srun runs /bin/true n times, two at a time.
func (s *slurm) srun(n int) error {
	var running sync.WaitGroup
	errs := make([]error, 2)
	for worker := range errs {
		running.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += len(errs) {
				errs[worker] = s.command("srun", "--quiet", "/bin/true").Run()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// sbatch runs /bin/true n times, as an array.
func (s *slurm) sbatch(n int) error {
	id, err := s.command("sbatch", "--parsable", "--output=/dev/null", fmt.Sprintf("--array=1-%d%%2", n), "--wrap=/bin/true").Output()
	for err == nil {
		var left []byte
		left, err = s.command("squeue", "--noheader", "--jobs="+strings.TrimSpace(string(id))).Output()
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
