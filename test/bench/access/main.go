// Command access holds the table of roles and routes in docs/reference/access.md against
// real daemons.
//
// It starts two as root on simulated GPUs, one of them with TLS, and calls
// every route as every kind of caller: users with roles of their own and by
// their group, tokens, sessions and client certificates, over the Unix socket,
// TCP and TLS. It ends with 1 if a caller gains what the table does not grant,
// or is refused what it grants. Run it as root, in the root of the repository.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// The users who have nothing to do with roles.
const (
	attacker = 65534 // shows tokens and certificates
	victim   = 65533 // has a lease
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary")
	flag.Parse()
	if flag.Arg(0) == "calls" { // this process is a caller
		check(makeCalls(os.Stdin, os.Stdout))
		return
	}
	if os.Geteuid() != 0 {
		fmt.Println("skipped: only root can become other users")
		return
	}
	path, err := filepath.Abs(*berth)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute) // a minute is usual, and a busy machine takes many
	defer cancel()
	check(run(ctx, path))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "access:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, berth string) error {
	rights, err := readRights()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "berth-access-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := errors.Join(os.Chmod(folder, 0o755), makeCertificates(folder)); err != nil {
		return err
	}
	config := fmt.Sprintf("users:\n  %d: {role: viewer}\n  %d: {role: operator}\n  %d: {role: admin}\n  cert:op: {role: operator}\n  cert:boss: {role: admin}\ngroups:\n  %d: {role: operator}\nfront: {listen: '127.0.0.1:0', user: '%d'}\n",
		viewerUID, operatorUID, adminUID, memberUID, frontUID)
	withTLS := fmt.Sprintf("daemon: {tls_cert: %[1]s/server.pem, tls_key: %[1]s/server.key, tls_client_ca: %[1]s/ca.pem}\n", folder)
	calls, callers, wrong := 0, 0, []string(nil)
	for name, text := range map[string]string{"plain": config, "secure": config + withTLS} {
		d, err := serve(ctx, berth, filepath.Join(folder, name), text)
		if err != nil {
			return err
		}
		defer d.stop()
		all, err := callersOf(ctx, d, folder, name == "secure")
		if err != nil {
			return err
		}
		for _, c := range all {
			n, bad, err := try(ctx, d, c, rights)
			if err != nil {
				return fmt.Errorf("%s over %s: %w", c.name, c.door, err)
			}
			ran, err := runAs(ctx, d, c)
			if err != nil {
				return fmt.Errorf("%s over %s: %w", c.name, c.door, err)
			}
			calls, callers, wrong = calls+n+2, callers+1, append(append(wrong, bad...), ran...)
		}
	}
	for _, line := range wrong {
		fmt.Println(line)
	}
	figure.Say("calls that are not answered as the page of rights says", float64(len(wrong)), "calls", figure.Less)
	fmt.Printf("%d calls to %d routes by %d callers: %d not as %s says\n", calls, len(rights), callers, len(wrong), accessPage)
	if len(wrong) > 0 {
		return errors.New("the table and the daemon do not agree")
	}
	return nil
}

// daemon is a daemon that is tried.
type daemon struct {
	cmd         *exec.Cmd
	socket, tcp door
	state       string // folder
}

var listening = regexp.MustCompile(`msg="berth is up".* listen=(\S+)`)

// serve starts a daemon and returns when it is up.
func serve(ctx context.Context, berth, folder, config string) (*daemon, error) {
	file, log := filepath.Join(folder, "berth.yaml"), &bytes.Buffer{}
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		return nil, err
	}
	d := &daemon{socket: door{Network: "unix", Address: filepath.Join(folder, "s")}, state: filepath.Join(folder, "state")}
	d.cmd = exec.CommandContext(ctx, berth, "serve", "--config", file, "--devices", "sim:2", "--state-dir", d.state, "--socket", d.socket.Address, "--listen", "127.0.0.1:0")
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	out, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	piece := make([]byte, 4096)
	for {
		n, err := out.Read(piece)
		log.Write(piece[:n])
		if up := listening.FindSubmatch(log.Bytes()); up != nil {
			d.tcp = door{Network: "tcp", Address: string(up[1])}
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return d, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the daemon does not start:\n%s", log)
		}
	}
}

// stop kills the daemon, and the front, which outlives it.
func (d *daemon) stop() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
	var front struct{ PID int }
	text, err := os.ReadFile(filepath.Join(d.state, "services", "front.lock"))
	if err == nil && json.Unmarshal(text, &front) == nil && front.PID > 0 {
		_ = syscall.Kill(front.PID, syscall.SIGKILL)
	}
}

// door is an address of a daemon, and what a caller shows there.
type door struct {
	Network, Address string
	CA, Cert, Key    string // files for TLS; empty: none
}

func (d door) String() string {
	switch {
	case d.Network == "unix":
		return "the socket"
	case d.CA != "":
		return "TLS"
	}
	return "TCP"
}

// dial connects to the door, with TLS if it has some.
func (d door) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, d.Network, d.Address)
	if err != nil || d.CA == "" {
		return conn, err
	}
	text, err := os.ReadFile(d.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(text)
	if d.Cert != "" {
		pair, err := tls.LoadX509KeyPair(d.Cert, d.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	over := tls.Client(conn, config)
	return over, over.HandshakeContext(ctx)
}

// call is one request. $PID in its body is the process that makes it.
type call struct{ Method, Path, Body, Token, Cookie string }

// reply is the answer to a call. Without an answer, Status is 0.
type reply struct {
	Status int
	Body   string
	Cookie string // that it sets; empty: none
}

// asked is what a caller reads from its standard input.
type asked struct {
	Door  door
	Calls []call
}

// as makes calls as a user, from a process of its own.
func (d *daemon) as(ctx context.Context, uid int, at door, calls ...call) ([]reply, error) {
	in, err := json.Marshal(asked{at, calls})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "calls")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("call as user %d: %w", uid, err)
	}
	var got []reply
	return got, json.Unmarshal(out, &got)
}

// makeCalls makes calls one after the other and writes the answers.
func makeCalls(in io.Reader, out io.Writer) error {
	var a asked
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.Door.dial(ctx) },
	}}
	replies := make([]reply, len(a.Calls))
	for i, c := range a.Calls {
		r, err := http.NewRequest(c.Method, "http://localhost"+c.Path, strings.NewReader(strings.ReplaceAll(c.Body, "$PID", strconv.Itoa(os.Getpid()))))
		if err != nil {
			return err
		}
		if c.Body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if c.Token != "" {
			r.Header.Set("Authorization", "Bearer "+c.Token)
		}
		if c.Cookie != "" {
			r.Header.Set("Cookie", c.Cookie)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		answer, err := client.Do(r)
		if err != nil {
			continue // status 0
		}
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		_ = answer.Body.Close()
		replies[i] = reply{Status: answer.StatusCode, Body: string(text)}
		replies[i].Cookie, _, _ = strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	}
	return json.NewEncoder(out).Encode(replies)
}
