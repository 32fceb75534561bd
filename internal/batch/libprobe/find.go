package libprobe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// find returns the path of an interpreter. It looks a name up on the PATH that the
// interpreter will have, which may differ from that of this process.
func find(interpreter string, env []string) (string, error) {
	missing := func(detail string) error {
		return &Error{Interpreter: interpreter, Err: ErrNoInterpreter, Detail: detail, Hint: "install Python 3, or give the path of an interpreter"}
	}
	switch {
	case interpreter == "":
		return "", missing("its name is empty")
	case strings.Contains(interpreter, "/"):
		path, err := filepath.Abs(interpreter)
		if err == nil {
			err = executable(path)
		}
		if err != nil {
			return "", missing(err.Error())
		}
		return path, nil
	}
	for _, folder := range filepath.SplitList(variable(env, "PATH")) {
		// The meaning of a relative entry depends on the folder that a child runs in.
		if path := filepath.Join(folder, interpreter); filepath.IsAbs(path) && executable(path) == nil {
			return path, nil
		}
	}
	return "", missing("it is in no folder of PATH")
}

func executable(path string) error {
	about, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case err != nil:
		return err
	case about.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case about.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable", path)
	}
	return nil
}

// variable returns the value of a variable. The last one counts, as usual.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}
