package minder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/process/units"
)

// manager is the systemd that starts services for this process.
type manager struct{ systemd *units.Manager }

// findManager returns the systemd of this process, or nil if there is none.
func findManager() *manager {
	if found := units.Find(); found != nil {
		return &manager{found}
	}
	return nil
}

// slice is the slice of everything that berth starts for users, so that an administrator
// can limit all of it together.
const slice = "berth.slice"

// start starts a command as a transient service, and returns its process; the zero ID if
// that has ended. files become its standard input and output. It is no error if the
// service is there already.
func (m *manager) start(ctx context.Context, name, description string, command []string, l runs.Limits, files []*os.File) (process.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, units.Within)
	defer cancel()
	conn, err := m.systemd.Connect(ctx)
	if err != nil {
		return process.ID{}, err
	}
	defer conn.Close()
	result := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, name+".service", "fail", properties(description, command, l, files), result)
	if isError(err, "org.freedesktop.systemd1.UnitExists") {
		return mainProcess(ctx, conn, name)
	}
	if err != nil {
		return process.ID{}, fmt.Errorf("let systemd start %s: %w", name, err)
	}
	select {
	case said := <-result:
		if said != "done" {
			return process.ID{}, fmt.Errorf("let systemd start %s: %s; journalctl -u %s says why", name, said, name)
		}
		return mainProcess(ctx, conn, name)
	case <-ctx.Done():
		return process.ID{}, fmt.Errorf("let systemd start %s: %w", name, context.Cause(ctx))
	}
}

// mainProcess returns the process of a service, or the zero ID if there is none any more.
func mainProcess(ctx context.Context, conn *dbus.Conn, name string) (process.ID, error) {
	said, err := conn.GetServicePropertyContext(ctx, name+".service", "MainPID")
	if err != nil {
		return process.ID{}, fmt.Errorf("ask systemd for the process of %s: %w", name, err)
	}
	pid, _ := said.Value.Value().(uint32)
	id, err := process.Proc().Identify(int(pid))
	if err != nil {
		return process.ID{}, nil
	}
	return id, nil
}

// properties describe a service that is as free as a login session: it has none of the
// restrictions of the daemon's unit. It runs as root, because berth-serve itself becomes
// the user.
func properties(description string, command []string, l runs.Limits, files []*os.File) []dbus.Property {
	arguments := []string{command[0]}
	for _, a := range command[1:] {
		arguments = append(arguments, strings.ReplaceAll(a, "$", "$$")) // systemd replaces variables
	}
	set := map[string]any{
		"Description":   description,
		"Type":          "exec", // it is started when the program runs
		"Slice":         slice,
		"KillMode":      "control-group",          // with the minder goes everything below it
		"CollectMode":   "inactive-or-failed",     // nothing of it stays
		"OOMPolicy":     "continue",               // the minder says what the kernel killed
		"After":         []string{"dbus.service"}, // so that it is there at a shutdown, when a minder asks whether this is one
		"IgnoreSIGPIPE": false,
	}
	if l.CPUs > 0 {
		set["CPUQuotaPerSecUSec"] = uint64(max(l.CPUs*1e6, 1e4))
	}
	if l.HostMemory > 0 {
		set["MemoryMax"], set["MemorySwapMax"] = uint64(l.HostMemory)<<20, uint64(0)
	}
	if len(files) == 2 {
		set["StandardInputFileDescriptor"] = godbus.UnixFD(files[0].Fd())
		set["StandardOutputFileDescriptor"] = godbus.UnixFD(files[1].Fd())
	}
	list := []dbus.Property{dbus.PropExecStart(arguments, false)}
	for name, value := range set {
		list = append(list, dbus.Property{Name: name, Value: godbus.MakeVariant(value)})
	}
	return list
}

// kill kills everything in a service, if there is such a service.
func (m *manager) kill(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, units.Within)
	defer cancel()
	conn, err := m.systemd.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = conn.KillUnitWithTarget(ctx, name+".service", dbus.All, int32(unix.SIGKILL))
	if isError(err, "org.freedesktop.systemd1.NoSuchUnit") || isError(err, "org.freedesktop.systemd1.NoSuchProcess") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end what is left of %s: %w", name, err)
	}
	return nil
}

func isError(err error, name string) bool {
	said := godbus.Error{}
	return errors.As(err, &said) && said.Name == name
}
