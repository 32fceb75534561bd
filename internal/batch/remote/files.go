package remote

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files are the files that workers need on another machine. They lie there as they lie
// here, below the current folder.
type Files struct {
	Hash  string
	Bytes int64
	root  string
	names []string // of files, folders and links, relative to the root
}

// PackFiles finds files, and everything in the folders among them. All have to be below
// the root.
func PackFiles(root string, paths []string) (*Files, error) {
	f := &Files{root: root}
	for _, given := range paths {
		name := filepath.Clean(given)
		if filepath.IsAbs(name) {
			if inside, err := filepath.Rel(root, name); err == nil {
				name = inside
			}
		}
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s is not below %s, where the command is given: go to a folder above it, or use files that are on the machines (--same-files)", given, root)
		}
		err := filepath.WalkDir(filepath.Join(root, name), func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(root, at)
			if err == nil && inside != "." {
				f.names = append(f.names, filepath.ToSlash(inside))
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("files for the machines: %w", err)
		}
	}
	slices.Sort(f.names)
	f.names = slices.Compact(f.names)
	sum := sha256.New()
	count := &counter{Writer: sum}
	if err := f.Write(count); err != nil {
		return nil, err
	}
	f.Hash, f.Bytes = hex.EncodeToString(sum.Sum(nil)), count.n
	return f, nil
}

type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.Writer.Write(p)
}

// Write writes the files as an archive that is the same for the same files, whenever and
// by whomever it is written.
func (f *Files) Write(to io.Writer) error {
	archive := tar.NewWriter(to)
	for _, name := range f.names {
		if err := f.add(archive, name); err != nil {
			return fmt.Errorf("files for the machines: %w", err)
		}
	}
	return archive.Close()
}

func (f *Files) add(archive *tar.Writer, name string) error {
	at := filepath.Join(f.root, filepath.FromSlash(name))
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	head := &tar.Header{Name: name, Mode: 0o644, Format: tar.FormatPAX}
	if info.Mode()&0o100 != 0 {
		head.Mode = 0o755
	}
	switch {
	case info.IsDir():
		head.Typeflag, head.Mode = tar.TypeDir, 0o755
		return archive.WriteHeader(head)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), filepath.ToSlash(target))) {
			return fmt.Errorf("%s is a link to %s, which does not come along: name the file itself", name, target)
		}
		head.Typeflag, head.Linkname, head.Mode = tar.TypeSymlink, filepath.ToSlash(target), 0o777
		return archive.WriteHeader(head)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder nor a link", name)
	}
	file, err := os.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	head.Typeflag, head.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(head); err != nil {
		return err
	}
	n, err := io.Copy(archive, io.LimitReader(file, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s became shorter meanwhile", name)
	}
	return err
}

// unusedFor is how long files that no task uses are kept.
const unusedFor = 30 * 24 * time.Hour

// keepFiles returns the folder with the files of a hash. If there is none, it fetches
// them, checks the hash, and keeps them.
func keepFiles(cache, hash string, fetch func() io.Reader) (string, error) {
	if _, err := hex.DecodeString(hash); err != nil || len(hash) != 2*sha256.Size {
		return "", fmt.Errorf("%q is no hash of files: this is not the protocol", hash)
	}
	folder := filepath.Join(cache, hash)
	now := time.Now()
	if os.Chtimes(folder, now, now) == nil {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", noRoom(cache, err)
	}
	dropUnused(cache, now)
	part, err := os.MkdirTemp(cache, "part-")
	if err != nil {
		return "", noRoom(cache, err)
	}
	defer os.RemoveAll(part) // it is gone if all went well
	sum := sha256.New()
	from := io.TeeReader(fetch(), sum)
	if err := unpackFiles(part, from); err != nil {
		return "", noRoom(cache, err)
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return "", err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != hash {
		return "", errors.New("the files changed while they were sent: give the command again")
	}
	if err := syncDisk(part); err != nil {
		return "", noRoom(cache, err)
	}
	if err := os.Rename(part, folder); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) { // another task fetched them, too
		return "", noRoom(cache, err)
	}
	return folder, nil
}

// keepUsed marks a folder of files as used, until ctx ends: another task may look for unused
// ones.
func keepUsed(ctx context.Context, folder string) {
	tick := time.NewTicker(unusedFor / 10)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			_ = os.Chtimes(folder, now, now)
		case <-ctx.Done():
			return
		}
	}
}

// syncDisk waits until everything on the disk of a folder is durable: nobody looks into
// files again that have their name. That takes less time than many files one by one.
func syncDisk(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// noRoom says where a disk is full, or what else is wrong with it.
func noRoom(cache string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &Refusal{Text: fmt.Sprintf("the disk with %s is full there: make room, or set XDG_CACHE_HOME to another disk", cache), Lasting: true}
	}
	return fmt.Errorf("files for the workers: %w", err)
}

// dropUnused removes files that no task has used for long, and what was left in the middle.
func dropUnused(cache string, now time.Time) {
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(cache, e.Name())) // the next task tries again
		}
	}
}

// unpackFiles unpacks an archive into a folder, and nowhere else.
func unpackFiles(folder string, from io.Reader) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(from)
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(head.Name, "/")
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is outside of the folder", head.Name)
		}
		if parent := path.Dir(name); parent != "." {
			if err := root.MkdirAll(parent, 0o755); err != nil {
				return err
			}
		}
		switch head.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(head.Linkname, name)
		case tar.TypeReg:
			err = unpackFile(root, name, head, archive)
		default:
			err = fmt.Errorf("%q is neither a file nor a folder nor a link", head.Name)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, name string, head *tar.Header, from io.Reader) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600|fs.FileMode(head.Mode)&0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
