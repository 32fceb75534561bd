package filelog_test

import (
	"fmt"
	"os"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
)

// A group of entries is there after the next Open, all of it or nothing.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)

	read := func(e journal.Entry) error { fmt.Printf("%d %s\n", e.Seq, e.Data); return nil }
	log, _, err := filelog.Open(file.Dir(folder), filelog.Options{}, read)
	if err == nil {
		err = log.Append([][]byte{[]byte("granted"), []byte("released")}, journal.Care{Durable: true})
	}
	if err == nil {
		err = log.Close()
	}
	if err == nil {
		log, _, err = filelog.Open(file.Dir(folder), filelog.Options{}, read)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	// Output:
	// 1 granted
	// 2 released
}
