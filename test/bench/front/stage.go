package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
)

// beServer answers requests until its input ends.
func beServer() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	answer := []byte(`{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("x", 150) + `"}}],"usage":{"prompt_tokens":40,"completion_tokens":50}}`)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	mux.HandleFunc("/v1/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		flush := http.NewResponseController(w)
		for range max(n, 1) {
			if _, err := io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n"); err != nil {
				return
			}
			_ = flush.Flush()
		}
		if n == 0 {
			<-r.Context().Done()
		}
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(l, mux)
}

// stage is all that runs for the measurement.
type stage struct {
	dir        string
	contenders []contender // the front is the last
	running    []*exec.Cmd
	front      *exec.Cmd
	daemon     *http.Server
}

func begin(program, swap string) (s *stage, err error) {
	dir, err := os.MkdirTemp("", "bench-front-")
	if err != nil {
		return nil, err
	}
	s = &stage{dir: dir}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := s.startServer()
	if err != nil {
		return nil, err
	}
	s.contenders = append(s.contenders, contender{name: "direct", address: "127.0.0.1:" + strconv.Itoa(port)})
	if _, err := exec.LookPath("nginx"); err == nil {
		if err := s.startNginx(port); err != nil {
			return nil, err
		}
	} else {
		fmt.Println("nginx is not installed (apt install nginx-light): measuring without it")
	}
	if swap != "" {
		if err := s.startSwap(swap, port); err != nil {
			return nil, err
		}
	}
	return s, s.startFront(program, port)
}

func (s *stage) end() {
	for _, cmd := range s.running {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range s.running {
		ended := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		ended.Stop()
	}
	if s.daemon != nil {
		_ = s.daemon.Close()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *stage) startServer() (port int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, "server")
	if _, err := cmd.StdinPipe(); err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	s.running = append(s.running, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// freePort returns a port that nobody had a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// reachable waits until something listens.
func reachable(address string) error {
	for range 500 {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("nothing listens at " + address)
}

const nginxSettings = `daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 1000000000;
  upstream server { server 127.0.0.1:%[2]d; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen %[3]s;
    location / { proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
  }
}
`

func (s *stage) startNginx(port int) error {
	address, err := freePort()
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxSettings, s.dir, port, address), 0o644); err != nil {
		return err
	}
	if err := s.start(exec.Command("nginx", "-c", file, "-p", s.dir, "-e", filepath.Join(s.dir, "nginx.log"))); err != nil {
		return err
	}
	s.contenders = append(s.contenders, contender{name: "nginx", address: address})
	return reachable(address)
}

// swapSettings has one model whose server runs already, and is not asked whether it is
// ready.
const swapSettings = `logLevel: error
models:
  chat: {cmd: sleep infinity, proxy: "http://127.0.0.1:%d", checkEndpoint: none, concurrencyLimit: 100000}
`

func (s *stage) startSwap(program string, port int) error {
	address, err := freePort()
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, "llama-swap.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, swapSettings, port), 0o644); err != nil {
		return err
	}
	cmd := exec.Command(program, "-config", file, "-listen", address)
	cmd.Dir = s.dir
	if err := s.start(cmd); err != nil {
		return err
	}
	s.contenders = append(s.contenders, contender{name: "llama-swap", address: address, prefix: "/upstream/chat"})
	return reachable(address)
}

func (s *stage) start(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running = append(s.running, cmd)
	return nil
}

// startFront starts the front, as a user without rights if this process is root.
func (s *stage) startFront(program string, port int) error {
	socket := filepath.Join(s.dir, "socket")
	address, err := freePort()
	if err != nil {
		return err
	}
	if err := s.beDaemon(socket, address, port); err != nil {
		return err
	}
	cmd := exec.Command(program, "front", "--socket", socket, "--log-level", "error")
	if os.Getuid() == 0 {
		// nobody may not look into the folders on the way to the program.
		inside := filepath.Join(s.dir, "berth-serve")
		if err := copyFile(inside, program); err != nil {
			return err
		}
		cmd.Path = inside
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if err := s.start(cmd); err != nil {
		return err
	}
	s.front = cmd
	s.contenders = append(s.contenders, contender{name: "front", address: address, prefix: "/services/chat"})
	return reachable(address)
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}

// beDaemon plays the daemon's side for the front.
func (s *stage) beDaemon(socket, listen string, port int) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o777); err != nil {
		return err
	}
	service := api.FrontService{Name: "chat", State: "ready", Epoch: 1, Port: port, UID: os.Getuid()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/front/orders", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(api.FrontOrder{Services: []api.FrontService{service}, Settings: &api.FrontSettings{Listen: listen}})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /api/front/reports", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /api/front/caller", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.FrontCaller{User: "bench", Role: "user"})
	})
	s.daemon = &http.Server{Handler: mux}
	go func() { _ = s.daemon.Serve(l) }()
	return nil
}

// resident returns how much memory the front has, in MiB.
func (s *stage) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.front.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(fields[1], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("the kernel does not say how much memory the front has")
}
