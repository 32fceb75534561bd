// Package units speaks to systemd about services.
package units

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Manager is the systemd that starts services for this process: that of the machine for
// root, and that of the user for others.
type Manager struct{ socket string }

// Within is how long systemd may take to do something.
const Within = 30 * time.Second

// Find returns the systemd of this process, or nil if there is none.
func Find() *Manager {
	folder := "/run"
	if os.Geteuid() != 0 {
		folder = os.Getenv("XDG_RUNTIME_DIR")
	}
	socket := filepath.Join(folder, "systemd", "private")
	if info, err := os.Stat(socket); err != nil || info.Mode().Type() != os.ModeSocket || !filepath.IsAbs(socket) {
		return nil
	}
	return &Manager{socket}
}

// Connect connects to systemd itself, which works without a message bus.
func (m *Manager) Connect(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		c, err := godbus.Dial("unix:path="+godbus.EscapeBusAddressValue(m.socket), godbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		if err := c.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	})
	if err != nil {
		return nil, fmt.Errorf("speak to systemd: %w", err)
	}
	return conn, nil
}

// Act is what systemd does to a unit.
type Act string

// The acts.
const (
	Start   Act = "start" // if it does not run
	Restart Act = "restart"
	Stop    Act = "stop"
)

// Do tells systemd to start, restart or stop a unit. It waits until one is started, and not
// for the end of one that has to end.
func (m *Manager) Do(ctx context.Context, act Act, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	conn, err := m.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch act {
	case Start:
		result := make(chan string, 1)
		if _, err = conn.StartUnitContext(ctx, unit, "replace", result); err == nil {
			select {
			case said := <-result:
				if said != "done" {
					err = fmt.Errorf("%s; journalctl -u %s says why", said, unit)
				}
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
	case Restart:
		_, err = conn.RestartUnitContext(ctx, unit, "replace", nil)
	case Stop:
		_, err = conn.StopUnitContext(ctx, unit, "replace", nil)
	}
	if err != nil {
		return fmt.Errorf("let systemd %s %s: %w", act, unit, err)
	}
	return nil
}
