//go:build !linux

package filelog

import "os"

func syncData(f *os.File) error { return f.Sync() }
