//go:build cgo

package cexec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// driver is a process that hands inputs to the C side; see testdata/driver.c.
type driver struct {
	cmd    *exec.Cmd
	in     io.Writer
	out    io.Reader
	report bytes.Buffer // of the sanitizers
}

// driverPath names a driver that was built before, for a machine without a
// compiler.
const driverPath = "BERTH_FUZZ_DRIVER"

// buildDriver returns the path of the driver, which it builds once.
var buildDriver = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(driverPath); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "driver")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "driver")
	build := exec.Command("cc", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", path, "testdata/driver.c")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the driver: %w\n%s", err, text)
	}
	return path, nil
})

// builtIn is the folder of the driver; empty: none was built.
var builtIn string

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func startDriver(f *testing.F) *driver {
	f.Helper()
	path, err := buildDriver()
	if err != nil {
		f.Fatal(err)
	}
	d := &driver{cmd: exec.Command(path)}
	d.cmd.Env = []string{"ASAN_OPTIONS=detect_leaks=0"} // an environment is never freed
	d.cmd.Stderr = &d.report
	in, err := d.cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	if d.out, err = d.cmd.StdoutPipe(); err != nil {
		f.Fatal(err)
	}
	d.in = in
	if err := d.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = in.Close()
		_ = d.cmd.Wait()
	})
	return d
}

// send hands an input to one of the readers, and fails the test if the driver
// ends.
func (d *driver) send(t *testing.T, reader byte, text []byte) {
	t.Helper()
	head := binary.LittleEndian.AppendUint32([]byte{reader}, uint32(len(text)))
	_, err := d.in.Write(append(head, text...))
	if err == nil {
		_, err = io.ReadFull(d.out, head[:1])
	}
	if err != nil {
		_ = d.cmd.Wait()
		t.Fatalf("%q ended the driver: %v, %v\n%s", text, err, d.cmd.ProcessState, d.report.Bytes())
	}
}

// Whatever the daemon answers, only memory of the answer is read.
func FuzzAnswer(f *testing.F) {
	const good = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"
	for _, seed := range []string{
		good + "sCUDA_VISIBLE_DEVICES=GPU-1\x00uXLA_CLIENT_MEM_FRACTION\x00mthe lease is short\x00.\x00",
		good + ".\x00", good, good + "sA=b.\x00", good + "s=\x00s\x00u\x00u=\x00\x00.\x00",
		"HTTP/1.1 409 Conflict\r\n\r\n{}", "\r\n\r\n.\x00", "HTTP/1.1 200 \r\n\r\n..\x00",
	} {
		f.Add([]byte(seed))
	}
	d := startDriver(f)
	f.Fuzz(func(t *testing.T, text []byte) { d.send(t, 'a', text) })
}

// Whatever stands in the files of PyTorch and pyenv, the C side reads it within
// its bounds.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"__version__ = '2.10.1+cu128'\n", "__version__ = '", "__version__ = '2.9999999999999999999999999999999999999999'", "3.12.1\nsystem\n", "\x00", "",
	} {
		f.Add([]byte(seed))
	}
	d := startDriver(f)
	f.Fuzz(func(t *testing.T, text []byte) { d.send(t, 'f', text) })
}

// Whatever the environment says, the C side finds a command or none, and waits
// for a time that makes sense.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{
		"/usr/bin:/bin\x00true\x0010", ":::\x00x\x00999999999", "\x00/bin/true\x00-1", "/bin\x00\x001e3", "", "/nowhere/that/has/a/name/longer/than/the/buffer/is/in/the/driver\x00true\x00",
	} {
		f.Add([]byte(seed))
	}
	d := startDriver(f)
	f.Fuzz(func(t *testing.T, text []byte) { d.send(t, 'n', text) })
}
