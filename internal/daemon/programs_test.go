package daemon

import (
	"errors"
	"log/slog"
	"net"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/job/service"
)

func settingsOf(t *testing.T, yaml string) *config.Settings {
	t.Helper()
	layer, _ := config.ParseYAML("berth.yaml", []byte(yaml))
	s, err := config.Merge(layer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What makes the daemon run something is set by the file, and by administrators on the
// socket who show no token.
func TestWhoMayRunPrograms(t *testing.T) {
	before := settingsOf(t, "services: {a: {command: a, user: u}}\nhooks: {h: {command: [h]}}")
	root := access.Actor{User: "root", UID: 0, Door: access.Socket, Role: access.Admin}
	token := access.Actor{User: "token:ci", UID: access.NoUID, Token: "ci", Door: access.Socket, Role: access.Admin}
	certificate := access.Actor{User: "cert:ops", UID: access.NoUID, Door: access.TCP, Role: access.Admin}
	page := access.Actor{User: "ada", UID: 1000, Door: access.TCP, Role: access.Admin}
	operator := access.Actor{User: "olga", UID: 1001, Door: access.Socket, Role: access.Operator}
	for change, runs := range map[string]string{
		`{"services": {"a": {"command": "b"}}}`:                                                     "services.a.command",
		`{"services": {"a": {"user": "v"}}}`:                                                        "services.a.user",
		`{"services": {"a": {"directory": "/d"}}}`:                                                  "services.a.directory",
		`{"services": {"a": {"env": {"A": "b"}}}}`:                                                  "services.a.env",
		`{"services": {"a": {"port": 9999}}}`:                                                       "services.a.port",
		`{"services": {"a": {"ready": {"log": "up"}}}}`:                                             "services.a.ready.log",
		`{"services": {"a": {"sleep": [{"path": "/s"}], "wake": [{"path": "/w"}]}}}`:                "services.a.sleep",
		`{"services": {"b": {"command": "b"}}}`:                                                     "services.b.command",
		`{"front": {"listen": "127.0.0.1:1234"}}`:                                                   "front.listen",
		`{"hooks": {"h": {"command": ["sh"]}}}`:                                                     "hooks.h.command",
		`{"hooks": {"i": {"command": ["sh"]}}}`:                                                     "hooks.i.command",
		`{"alerts": {"rules": ["/etc/shadow"]}}`:                                                    "alerts.rules",
		`{"front": {"user": "x"}}`:                                                                  "front.user",
		`{"services": {"a": {"idle_after": 60, "max_open": 3, "start": "always", "away": "stop"}}}`: "",
	} {
		next, _, err := before.Change([]byte(change))
		if err != nil {
			t.Fatal(err)
		}
		may := func(by access.Actor) error {
			if err := mayChange(by, before.Differences(next), []byte(change)); err != nil {
				return err
			}
			return mayRun(by, before, next)
		}
		if err := may(root); err != nil {
			t.Errorf("%s by root: %v", change, err)
		}
		for name, by := range map[string]access.Actor{"a token": token, "a certificate": certificate, "an administrator on the page": page, "an operator": operator} {
			err := may(by)
			if refused := err != nil; refused != (runs != "") {
				t.Errorf("%s by %s: %v", change, name, err)
			} else if refused && !strings.Contains(err.Error(), runs) {
				t.Errorf("%s by %s is refused without its name: %v", change, name, err)
			}
		}
	}
}

func TestWhomProgramsRunAs(t *testing.T) {
	for _, c := range []struct {
		yaml string
		uid  int
		want string // empty: it may run
	}{
		{"services: {a: {command: a}}", 0, "berth.yaml:1: services.a.command: the daemon runs as root: say in services.a.user whom the program runs as (not root)"},
		{"services: {a: {command: a, user: root}}", 0, "berth.yaml:1: services.a.user: is root, and berth runs no program of a service as root: name another user"},
		{"services: {a: {command: a, user: '0'}}", 0, "is root"},
		{"services: {a: {command: a, user: ada}}", 0, ""},
		{"services: {a: {command: a}}", 1000, ""},
		{"services: {a: {command: a, user: ada}}", 1000, ""},
		{"services: {a: {command: a, user: '1000'}}", 1000, ""},
		{"services: {a: {command: a, user: eve}}", 1000, "berth.yaml:1: services.a.user: is eve, and this daemon is not root: it runs programs only as ada. Leave it out, or let root run the daemon"},
		{"services: {a: {priority: 1}}", 0, ""},
		{"front: {user: root}", 0, "berth.yaml:1: front.user: is root, and the front talks to strangers: name a user without rights"},
		{"front: {user: eve}", 1000, "its front runs as ada"},
		{"front: {listen: '127.0.0.1:8080', user: nobody}", 0, ""},
	} {
		err := checkPrograms(settingsOf(t, c.yaml), c.uid, "ada")
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, daemon of %d: %v", c.yaml, c.uid, err)
		}
	}
}

// A daemon of an ordinary user starts also while the user database does not say its name.
func TestProgramsOfADaemonWithoutAName(t *testing.T) {
	s := settingsOf(t, "services: {a: {command: a, user: ada}}\nfront: {user: ada}")
	for answer, refused := range map[error]bool{errors.New("the directory is away"): false, user.UnknownUserIdError(1000): true, nil: true} {
		names := users.New(func(int) (string, error) { return "eve", answer }, time.Minute)
		if err := checkPrograms(s, 1000, nameOf(names, 1000)); (err != nil) != refused {
			t.Errorf("the user database says %v: %v", answer, err)
		}
	}
}

// A bug that the reader of the log of a service meets is an error of that service.
func TestABugInALogIsOfItsService(t *testing.T) {
	logs := serviceLogs{faults: &fault.Faults{Log: slog.New(slog.DiscardHandler), Publish: func(gpu.Event) {}}} // without minders
	bug := (*fault.Error)(nil)
	if err := logs.follow(t.Context(), &service.Spec{Name: "a"}, "/log", func(string) bool { return true }); !errors.As(err, &bug) {
		t.Errorf("the service hears %v", err)
	}
	if lines := logs.last(t.Context(), &service.Spec{Name: "a"}, "/log", 1); lines != nil {
		t.Errorf("the last lines are %q", lines)
	}
}

// If all ports that berth gives are taken, a server gets another one, and it is known
// which one to look at.
func TestPortsThatAreTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	has := l.Addr().(*net.TCPAddr).Port
	if port, taken, err := freePort(has, has+1); err != nil || port == has || port == 0 || taken != has {
		t.Errorf("a server gets the port %d, and %d is taken: %v; want another one than %d", port, taken, err, has)
	}
}

// A refusal names the settings that were asked for, and not those that a new entry has
// besides.
func TestRefusedSettingsAreThoseAskedFor(t *testing.T) {
	before := settingsOf(t, "")
	operator := access.Actor{User: "carol", Door: access.Socket, Role: access.Operator}
	for change, names := range map[string]string{
		`{"users": {"ada": {"memory_mb": 4096}}}`:                                         "users.ada.memory_mb: ",
		`{"users": {"ada": {"memory_mb": 4096, "running_jobs": 3}}, "temp_throttle": 80}`: "users.ada.memory_mb, users.ada.running_jobs: ",
		`{"temp_throttle": 80}`: "",
	} {
		next, _, err := before.Change([]byte(change))
		if err != nil {
			t.Fatal(err)
		}
		err = mayChange(operator, before.Differences(next), []byte(change))
		if (err == nil) != (names == "") || err != nil && (!strings.HasPrefix(err.Error(), names) || !strings.Contains(err.Error(), "the role admin")) {
			t.Errorf("%s: %v", change, err)
		}
	}
	all := []config.Difference{{Name: "users.ada.role"}}
	if got := asked([]byte(`{"users": null}`), all); len(got) != 1 {
		t.Errorf("what takes entries away names %v", got)
	}
	if got := asked([]byte(`{"temp_throttle": 80}`), all); len(got) != 1 { // nothing that changes goes unnamed
		t.Errorf("a change of something else names %v", got)
	}
}
