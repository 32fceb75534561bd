package rights

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/console"
)

// daemon stands in for one. It answers each route with a text, and keeps the
// last request.
type daemon struct {
	answers map[string]string // by method and path
	asked   string            // method, path, query and body
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, known := d.answers[r.Method+" "+r.URL.Path]
	if !known { // the command asks whether the daemon is there
		_, _ = io.WriteString(w, "{}")
		return
	}
	body, _ := io.ReadAll(r.Body)
	d.asked = r.Method + " " + r.URL.RequestURI() + " " + string(body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// run runs a command line against d, and returns what it writes and its exit
// code.
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
		In: strings.NewReader(in), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" },
		Now: func() time.Time { return now }, Terminal: func() (int, bool) { return 0, false },
	}}
	root := &cobra.Command{Use: "berth", SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { con.Begin(cmd) }}
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.PersistentFlags().BoolVar(&con.JSON, "json", false, "")
	root.AddCommand(Commands(con)...)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	con.Report(err)
	return stdout.String(), stderr.String(), con.ExitCode(t.Context(), err)
}

const made = `{"name":"ci","role":"user","service":"ci","expires":"2026-05-01T12:00:00Z","token":"berth_secret"}`

// The secret is the only thing on standard output, so that it can go into a file.
func TestTokenCreate(t *testing.T) {
	d := &daemon{answers: map[string]string{"POST /api/tokens": made}}
	out, errs, code := d.run(t, "", "token", "create", "ci", "--role", "user", "--service", "ci", "--expires", "90d")
	if out != "berth_secret\n" || code != 0 {
		t.Errorf("exit code %d, standard output %q", code, out)
	}
	if want := "berth: ci has the role user for the service ci, and expires on 2026-05-01 12:00\n"; errs != want {
		t.Errorf("standard error %q, want %q", errs, want)
	}
	if want := `POST /api/tokens {"name":"ci","role":"user","service":"ci","ttl_seconds":7776000}`; d.asked != want {
		t.Errorf("asked %s, want %s", d.asked, want)
	}
	out, _, _ = d.run(t, "", "token", "create", "ci", "--role", "user", "--json")
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer["token"] != "berth_secret" || answer["name"] != "ci" {
		t.Errorf("%s, %v", out, err)
	}
}

// A secret that comes from standard input is sent, and shown nowhere.
func TestTokenWithAnOwnSecret(t *testing.T) {
	d := &daemon{answers: map[string]string{"POST /api/tokens": strings.ReplaceAll(made, "berth_secret", "0123456789abcdef")}}
	for _, more := range [][]string{nil, {"--json"}} {
		out, errs, code := d.run(t, "0123456789abcdef\n", append([]string{"token", "create", "ci", "--role", "user", "--stdin"}, more...)...)
		if strings.Contains(out+errs, "0123456789abcdef") || code != 0 {
			t.Errorf("exit code %d, standard output %q, standard error %q", code, out, errs)
		}
		if !strings.HasSuffix(d.asked, `{"name":"ci","role":"user","token":"0123456789abcdef"}`) {
			t.Errorf("asked %s", d.asked)
		}
	}
	for name, secret := range map[string]string{
		"nothing": "", "an empty line": "\n", "two lines": "0123456789abcdef\n0123456789abcdef\n", "binary": "0123456789\x00\xff", "with a space": "0123456789 abcdef",
		"too much": strings.Repeat("x", longestSecret+1),
	} {
		d.asked = ""
		if out, errs, code := d.run(t, secret, "token", "create", "ci", "--role", "user", "--stdin"); code != 2 || d.asked != "" || out != "" || len(errs) > 300 {
			t.Errorf("%s: exit code %d, asked %q, standard error %q", name, code, d.asked, errs)
		}
	}
}

// Whatever is wrong with a command line is found out before anybody is asked.
func TestWrongUsage(t *testing.T) {
	for said, line := range map[string]string{
		`--role is missing: give scraper, viewer, user, operator or admin`: "token create ci",
		`did you mean operator?`:                                  "token create ci --role opperator",
		`the roles are scraper, viewer, user, operator and admin`: "token create ci --role stranger",
		`--expires must be above 0`:                               "token create ci --role user --expires 0",
		`"soon" is not a length of time`:                          "token create ci --role user --expires soon",
		`quota takes one user, not "ann" and "bob"`:               "quota ann bob",
		`accepts 1 arg(s), received 2`:                            "token revoke a b",
		`unknown flag: --all`:                                     "token list --all",
		`--watch must be at least 100ms`:                          "quota --watch=1ms",
	} {
		d := &daemon{}
		if _, errs, code := d.run(t, "", strings.Fields(line)...); code != 2 || !strings.Contains(errs, said) {
			t.Errorf("%s: exit code %d, said %q", line, code, errs)
		}
	}
	for _, args := range [][]string{{"token", "create", "", "--role", "user"}, {"token", "revoke", ""}, {"quota", ""}} {
		if _, errs, code := new(daemon).run(t, "", args...); code != 2 || !strings.Contains(errs, "is empty") {
			t.Errorf("%q: exit code %d, said %q", args, code, errs)
		}
	}
}

func TestTokenNamesAreOffered(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /api/tokens": `{"tokens":[{"name":"grafana","role":"scraper"},{"name":"ci","role":"user"}]}`}}
	out, _, _ := d.run(t, "", "__complete", "token", "revoke", "")
	if want := "grafana\tscraper\nci\tuser\n:4\n"; out != want {
		t.Errorf("offered %q, want %q", out, want)
	}
}

func TestQuotaOfAnother(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /api/quota": `{"user":"token:ci","limits":[{"name":"slots","limit":2,"used":1,"source":"users.token:ci"}]}`}}
	out, errs, code := d.run(t, "", "quota", "token:ci")
	if want := "token:ci\n\nLIMIT ON  USED  OF  FROM\nslots        1   2  users.token:ci\n"; out != want || code != 0 || d.asked != "GET /api/quota?user=token%3Aci " {
		t.Errorf("exit code %d, asked %q, said %q and %q, want %q", code, d.asked, out, errs, want)
	}
}
