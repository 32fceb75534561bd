// Command filtered runs a command in a control group in which of NVIDIA's GPUs
// only those with the given minors can be opened, with the code that the daemon
// uses.
//
// isolation.sh asks with it what a program sees that has leased another GPU
// than the only one of the machine.
//
//	filtered 1,2 -- COMMAND...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup/enclosure"
)

func main() {
	err := run(os.Args[1:])
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "filtered:", err)
		os.Exit(125)
	}
}

func run(args []string) error {
	if len(args) < 3 || args[1] != "--" {
		return errors.New("use: filtered MINOR,MINOR -- COMMAND")
	}
	var minors []int
	for text := range strings.SplitSeq(args[0], ",") {
		minor, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not the minor number of a device file", text)
		}
		minors = append(minors, minor)
	}
	self, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		return err
	}
	if _, err := enclosure.New("bench").Enclose(self, uint64(os.Getpid()), minors); err != nil {
		return err
	}
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
