package services

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// daemon stands in for one with two services. It keeps the orders that it gets.
type daemon struct {
	orders []string
	looked int // how often somebody looked after chat was stopped
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	chat := `{"name":"chat","state":"ready","since":"2026-01-31T11:55:00Z","models":["qwen"],"open":2,"devices":["GPU-0"],"memory_mb":12288}`
	const coder = `{"name":"coder","state":"away","since":"2026-01-31T11:00:00Z","models":["qwen-coder","gpt-*","*"]}`
	if r.URL.Path == "/api/services" && strings.Contains(strings.Join(d.orders, " "), "chat/stop") {
		state := "closing"
		if d.looked++; d.looked > 1 {
			state = "stopped"
		}
		chat = fmt.Sprintf(`{"name":"chat","state":%q,"since":"2026-01-31T11:55:00Z","stopped":{"by":"ada","at":"2026-01-31T11:55:00Z"}}`, state)
	}
	w.Header().Set("Content-Type", "application/json")
	name, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/services/"), "/")
	one, known := map[string]string{"chat": chat, "coder": coder}[name]
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == "/api/services":
		fmt.Fprintf(w, `{"services":[%s,%s]}`, chat, coder)
	case strings.HasPrefix(r.URL.Path, "/api/gpu/status"):
		fmt.Fprint(w, `{"gpus":[{"device":{"uuid":"GPU-0","index":0}},{"device":{"uuid":"GPU-1","index":1}}]}`)
	case strings.HasPrefix(r.URL.Path, "/api/services/") && !known:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":404,"code":"unknown_service","detail":"There is no such service."}`)
	case known && verb == "stop" && name == "coder":
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"status":403,"code":"not_yours","detail":"The service coder runs as ada."}`)
	case known:
		if r.Method == http.MethodPost {
			d.orders = append(d.orders, r.URL.Path+" "+string(body))
		}
		fmt.Fprint(w, one)
	default:
		fmt.Fprint(w, "{}")
	}
}

// run runs a command line against d, and returns what it writes and its exit code.
func (d *daemon) run(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: d}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	var stdout, stderr bytes.Buffer
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	con := &console.Console{Socket: socket, Env: console.Env{
		In: strings.NewReader(in), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }, Environ: []string{"HOME=/home/ada"},
		Now: func() time.Time { return now }, Terminal: func() (int, bool) { return 0, false },
	}}
	root := &cobra.Command{Use: "berth", SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { con.Begin(cmd) }}
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.PersistentFlags().BoolVar(&con.JSON, "json", false, "")
	for _, each := range Commands() {
		root.AddCommand(each.New(con))
	}
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	con.Report(err)
	return stdout.String(), stderr.String(), con.ExitCode(t.Context(), err)
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args      string
		out, errs string // which it must contain
		orders    string
		code      int
	}{
		{"services", "chat     ready  5 min    0  12.0     2", "", "", 0},
		{"services --json", `"name": "coder"`, "", "", 0},
		{"services chat", "chat  ready for 5 min", "", "", 0},
		{"services qwen", "chat  ready for 5 min", "", "", 0},
		{"services cod", "coder  away for", "", "", 0},
		{"services gpt-4", "coder  away for", "", "", 0},
		{"services c", "", `"c" means several: chat, coder`, "", 1},
		{"services chta", "", "there is no service chta that berth runs a program for\n  did you mean chat?", "", 4},
		{"services zzz", "", "berth services lists them", "", 4},
		{"services chat coder", "", "services shows all services or one", "", 2},
		{"start coder", "coder starts as soon as there is room; to see how far it is: berth services coder --watch", "", `/api/services/coder/start {}`, 0},
		{"start coder --why test", "", "", `/api/services/coder/start {"why":"test"}`, 0},
		{"stop chat --why weights", "chat is stopped when its 2 open requests have ended. Requests for it are refused until berth start chat", "", `/api/services/chat/stop {"why":"weights"}`, 0},
		{"stop coder chat", "chat is stopped", "The service coder runs as ada.", `/api/services/chat/stop {}`, 4},
		{"stop --all --why x", "chat is stopped", "The service coder runs as ada.", `/api/services/chat/stop {"why":"x"}`, 4},
		{"stop --all chat", "", "--all means every service", "", 2},
		{"start --all", "No service is stopped.", "", "", 0},
		{"start --all --json", "", "", "", 0},
		{"restart qwen", "chat is started again when", "", `/api/services/chat/restart {}`, 0},
		{"move chat 1", "chat goes to GPU 1 when its 2 open requests have ended", "", `/api/services/chat/move {"gpu":"1"}`, 0},
		{"move chat GPU-1", "chat goes to GPU 1 when", "", `/api/services/chat/move {"gpu":"GPU-1"}`, 0},
		{"move chat 1 --json", `"name":"chat"`, "", `/api/services/chat/move {"gpu":"1"}`, 0},
		{"move chat", "", "accepts 2 arg(s)", "", 2},
		{"start", "", "requires at least 1 arg", "", 2},
		{"__complete stop ", "chat\tready", "", "", 0},
		{"__complete move chat ", "0\n1\n", "", "", 0},
	} {
		t.Run(c.args, func(t *testing.T) {
			d := new(daemon)
			args := strings.Fields(c.args)
			if strings.HasSuffix(c.args, " ") {
				args = append(args, "")
			}
			out, errs, code := d.run(t, "", args...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || strings.Join(d.orders, "\n") != c.orders {
				t.Errorf("exit code %d, orders %q\n%s\n%s", code, d.orders, out, errs)
			}
			if strings.HasPrefix(c.args, "stop --all --why") && d.looked != 2 {
				t.Errorf("it looked %d times how far chat is, which has ended at the second", d.looked)
			}
			if code == 0 && strings.Contains(errs, "berth: ") {
				t.Errorf("it says %s", errs)
			}
		})
	}
}

func TestImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const swap = "logLevel: info\nmodels:\n  qwen: {cmd: 'serve ${PORT} ${env.HOME}', ttl: 60}\n"
	if err := os.WriteFile(file, []byte(swap), 0o600); err != nil {
		t.Fatal(err)
	}
	d := new(daemon)
	out, errs, code := d.run(t, "", "import", "llama-swap", file, "--user", "llm")
	want := "front:\n  listen: 127.0.0.1:8080\n\nservices:\n  qwen:\n    command: [serve, \"${PORT}\", /home/ada]\n    user: llm\n    ready: {path: /health}\n    idle_after: 60\n"
	if code != 0 || out != want || errs != file+":1: logLevel: the daemon has a log of its own, and berth logs NAME shows that of a server\n" {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	out, errs, code = d.run(t, swap, "import", "llama-swap", "-", "--user", "llm", "--json")
	if code != 0 || errs != "" || !strings.Contains(out, `"line": 1`) || !strings.Contains(out, `"settings": "front:\n`) {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	for in, want := range map[string]string{"models: [": "berth: standard input: line 1: the file is not YAML", "a: b": "there is no model that berth could run"} {
		out, errs, code := d.run(t, in, "import", "llama-swap", "-")
		if code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d\n%s\n%s", in, code, out, errs)
		}
	}
	if _, _, code := d.run(t, "", "import", "llama-swap", "/nonexistent"); code != 1 {
		t.Errorf("a file that is not there: exit code %d", code)
	}
}
