// Runs Tabane where restic's tests of its command line call restic's commands.
//
// run.py puts this file beside restic's own, whose functions of the same names it renames. A struct
// of options becomes the options of the command line that restic reads into it, so what is tested is
// whether Tabane understands restic's options. What is translated apart from that:
//
//   - restic stores a relative path as it was given, Tabane the whole path (relativeTo);
//   - JSON of the same content with other names of fields;
//   - messages (messages).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/restic/restic/internal/data"
	"github.com/restic/restic/internal/errors"
	"github.com/restic/restic/internal/global"
	"github.com/restic/restic/internal/repository"
	"github.com/restic/restic/internal/restic"
	"github.com/restic/restic/internal/ui"
	"github.com/restic/restic/internal/ui/progress"
)

// relativeTo has, by repository, the directory in which relative paths were backed up.
var relativeTo = map[string]string{}

// messages are sentences of Tabane, and what restic says in the same case.
var messages = [][2]string{
	{"would stay, so nothing is removed", `refusing to delete last snapshot of snapshot group "host example, path`},
	{"would remove every snapshot of the repository", "--unsafe-allow-remove-all is not allowed unless a snapshot filter option is specified"},
	{"needed blocks cannot all be found", "packs from index missing in repo"},
	{"nothing says which snapshots stay", "no policy was specified, no snapshots will be removed"},
	{"cannot be used with", "exclude and include patterns are mutually exclusive; only either"},
	{"unexpected argument", "no arguments, please; not one argument"},
	{"required arguments were not provided", "one argument, please"},
	{"--oldest is later", "--oldest must specify a time before --newest"},
	{"is empty", "an empty password is not allowed by default"},
}

// tabane runs the program and passes on what it prints.
func tabane(gopts global.Options, term ui.Terminal, arguments ...string) error {
	out, err := output(gopts, term, arguments...)
	show(term, out)
	return err
}

// show passes on what the program printed; one test has no terminal.
func show(term ui.Terminal, out []byte) {
	if len(out) > 0 && term != nil {
		_, _ = term.OutputRaw().Write(out)
	}
}

// output runs the program and returns what it printed to standard output.
func output(gopts global.Options, term ui.Terminal, arguments ...string) ([]byte, error) {
	if err := adopt(gopts); err != nil {
		return nil, err
	}
	arguments = append(globals(gopts), arguments...)
	command := exec.Command(os.Getenv("TABANE"), arguments...)
	command.Env = append(os.Environ(), "TABANE_PASSWORD="+password(gopts.Password))
	var out, log bytes.Buffer
	command.Stdout, command.Stderr = &out, &log
	err := command.Run()
	if log.Len() > 0 && term != nil {
		term.Error(log.String())
	}
	if err == nil {
		return out.Bytes(), nil
	}
	for _, message := range messages {
		if strings.Contains(log.String(), message[0]) {
			return out.Bytes(), errors.Fatal(message[1])
		}
	}
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 3 {
		return out.Bytes(), ErrInvalidSourceData
	}
	return out.Bytes(), errors.Fatalf("%s (%v)", log.String(), err)
}

// password stands in for the empty one, which Tabane does not take.
func password(password string) string {
	if password == "" {
		return "none"
	}
	return password
}

func globals(gopts global.Options) []string {
	state := filepath.Join(filepath.Dir(gopts.Repo), "state")
	all := []string{"--repo", gopts.Repo, "--cache-dir", gopts.CacheDir, "--state-dir", state}
	if gopts.Quiet && gopts.Verbosity < 2 {
		all = append(all, "--quiet")
	}
	if gopts.JSON {
		all = append(all, "--json")
	}
	if gopts.NoCache {
		all = append(all, "--no-cache")
	}
	if gopts.Verbosity >= 2 {
		all = append(all, "-vv")
	}
	return all
}

// adopt imports a repository of restic that a test unpacked, and puts the import in its place.
func adopt(gopts global.Options) error {
	if _, err := os.Stat(filepath.Join(gopts.Repo, "data")); err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(gopts.Repo, "packs")); err == nil {
		return nil // the directory of junk that testRunInit makes
	}
	if _, err := os.Stat(filepath.Join(gopts.Repo, "config")); err != nil {
		return nil
	}
	foreign := gopts.Repo + ".restic"
	if err := os.Rename(gopts.Repo, foreign); err != nil {
		return err
	}
	for _, arguments := range [][]string{
		{"init"},
		{"import", "restic:" + foreign},
	} {
		command := exec.Command(os.Getenv("TABANE"),
			append([]string{"--repo", gopts.Repo, "--cache-dir", gopts.CacheDir}, arguments...)...)
		command.Env = append(os.Environ(), "TABANE_PASSWORD="+password(gopts.Password),
			"TABANE_FROM_PASSWORD="+gopts.Password)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %v: %s", arguments, err, out)
		}
	}
	relativeTo[gopts.Repo] = "/"
	return nil
}

// flags are the options that restic's command line would have for these values.
func flags[T any, P interface {
	*T
	AddFlags(*pflag.FlagSet)
}](values T) (all []string) {
	var bound T
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	P(&bound).AddFlags(set)
	bound = values
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" {
			return
		}
		name := "--" + flag.Name
		if slice, ok := flag.Value.(pflag.SliceValue); ok {
			for _, value := range slice.GetSlice() {
				all = append(all, name+"="+value)
			}
			return
		}
		if lists, ok := flag.Value.(*data.TagLists); ok {
			for _, list := range *lists {
				all = append(all, name+"="+strings.Join(list, ","))
			}
			return
		}
		value := flag.Value.String()
		zero := reflect.ValueOf(flag.Value).Elem().IsZero()
		switch {
		case value == flag.DefValue, zero:
		case flag.Value.Type() == "bool":
			all = append(all, name)
		default:
			all = append(all, name+"="+value)
		}
	})
	return all
}

// below writes patterns and paths of the snapshot as Tabane stores them.
func below(gopts global.Options, path string) string {
	if base := relativeTo[gopts.Repo]; strings.HasPrefix(path, "/") && base != "" {
		return filepath.Join(base, path)
	}
	return path
}

func runInit(_ context.Context, opts InitOptions, gopts global.Options, _ []string, term ui.Terminal) error {
	if opts.CopyChunkerParameters {
		return from(opts.SecondaryRepoOptions, gopts, term, "init", "--copy-chunker-params")
	}
	if opts.SecondaryRepoOptions.Repo != "" {
		return from(opts.SecondaryRepoOptions, gopts, term, "init")
	}
	return tabane(gopts, term, "init")
}

// from runs a command that reads a second repository.
func from(other global.SecondaryRepoOptions, gopts global.Options, term ui.Terminal, arguments ...string) error {
	source := gopts
	source.Repo, source.Password = other.Repo, other.Password
	if err := adopt(source); err != nil {
		return err
	}
	if err := os.Setenv("TABANE_FROM_PASSWORD", password(other.Password)); err != nil {
		return err
	}
	return tabane(gopts, term, append(arguments, "--from-repo", other.Repo)...)
}

func runBackup(_ context.Context, opts BackupOptions, gopts global.Options, term ui.Terminal, targets []string) error {
	group := opts.GroupBy.String()
	opts.GroupBy = data.SnapshotGroupByOptions{}
	arguments := append([]string{"backup"}, flags(opts)...)
	if group != "" {
		arguments = append(arguments, "--group-by="+group)
	}
	if len(targets) == 1 && !filepath.IsAbs(targets[0]) {
		base, err := os.Getwd()
		if err != nil {
			return err
		}
		relativeTo[gopts.Repo] = base
	}
	arguments = append(arguments, "--")
	out, err := output(gopts, term, append(arguments, targets...)...)
	excluded := `{"message_type":"excluded_item","item":`
	ours := `{"message_type":"verbose","action":"excluded","path":`
	show(term, bytes.ReplaceAll(out, []byte(ours), []byte(excluded)))
	if err != nil && strings.Contains(err.Error(), "tabane: cannot read") {
		return ErrNoSourceData
	}
	return err
}

func runRestore(_ context.Context, opts RestoreOptions, gopts global.Options, term ui.Terminal, args []string) error {
	// Patterns of these tests that begin with / would be meant below relativeTo; there are none.
	arguments := append([]string{"restore"}, flags(opts)...)
	id := args[0]
	if base := relativeTo[gopts.Repo]; base != "" && !strings.Contains(id, ":") {
		id += ":" + base
	}
	return tabane(gopts, term, append(arguments, id)...)
}

func runCheck(_ context.Context, opts CheckOptions, gopts global.Options, args []string, term ui.Terminal) (checkSummary, error) {
	arguments := append([]string{"check"}, flags(opts)...)
	return checkSummary{}, tabane(gopts, term, append(arguments, args...)...)
}

func runForget(_ context.Context, opts ForgetOptions, _ PruneOptions, gopts global.Options, term ui.Terminal, args []string) error {
	group := opts.GroupBy.String()
	opts.GroupBy = data.SnapshotGroupByOptions{}
	arguments := append([]string{"forget"}, flags(opts)...)
	if len(args) == 0 {
		arguments = append(arguments, "--group-by="+group)
	}
	return tabane(gopts, term, append(arguments, args...)...)
}

func runPrune(_ context.Context, opts PruneOptions, gopts global.Options, term ui.Terminal) error {
	arguments := append([]string{"prune", "--grace=0s"}, flags(opts)...)
	return tabane(gopts, term, arguments...)
}

func runRebuildIndex(_ context.Context, opts RepairIndexOptions, gopts global.Options, term ui.Terminal) error {
	return tabane(gopts, term, "repair", "index")
}

func runRepairPacks(_ context.Context, gopts global.Options, term ui.Terminal, args []string) error {
	return tabane(gopts, term, append([]string{"repair", "packs"}, args...)...)
}

func runRepairSnapshots(_ context.Context, gopts global.Options, opts RepairOptions, args []string, term ui.Terminal) error {
	arguments := append([]string{"repair", "snapshots"}, flags(opts)...)
	return tabane(gopts, term, append(arguments, args...)...)
}

func runRecover(_ context.Context, gopts global.Options, term ui.Terminal) error {
	return tabane(gopts, term, "recover")
}

func runCat(_ context.Context, gopts global.Options, args []string, term ui.Terminal) error {
	return tabane(gopts, term, append([]string{"cat"}, args...)...)
}

func runTag(_ context.Context, opts TagOptions, gopts global.Options, term ui.Terminal, args []string) error {
	arguments := append([]string{"tag"}, flags(opts)...)
	return tabane(gopts, term, append(arguments, args...)...)
}

func runRewrite(_ context.Context, opts RewriteOptions, gopts global.Options, args []string, term ui.Terminal) error {
	for i, pattern := range opts.Includes {
		opts.Includes[i] = below(gopts, pattern)
	}
	arguments := append([]string{"rewrite"}, flags(opts)...)
	if opts.SnapshotSummary {
		return nil // every snapshot of Tabane has a summary
	}
	return tabane(gopts, term, append(arguments, args...)...)
}

func runCopy(_ context.Context, opts CopyOptions, gopts global.Options, args []string, term ui.Terminal) error {
	return from(opts.SecondaryRepoOptions, gopts, term, append([]string{"copy"}, args...)...)
}

func runList(_ context.Context, gopts global.Options, args []string, term ui.Terminal) error {
	if args[0] == "blobs" {
		args[0] = "blocks"
	}
	return tabane(gopts, term, append([]string{"list"}, args...)...)
}

func runLs(_ context.Context, opts LsOptions, gopts global.Options, args []string, term ui.Terminal) error {
	base := relativeTo[gopts.Repo]
	arguments := append([]string{"ls"}, flags(opts)...)
	if base != "" {
		args = append([]string{args[0] + ":" + base}, args[1:]...)
	}
	arguments = append(arguments, args...)
	out, err := output(gopts, term, arguments...)
	show(term, bytes.ReplaceAll(out, []byte(base+"/"), []byte("/")))
	return err
}

func runFind(_ context.Context, opts FindOptions, gopts global.Options, args []string, term ui.Terminal) error {
	arguments := append(append([]string{"find"}, flags(opts)...), args...)
	out, err := output(gopts, term, arguments...)
	if gopts.JSON && err == nil {
		out, err = translateFind(out)
	}
	show(term, out)
	return err
}

// translateFind makes one array of the lines that Tabane prints.
func translateFind(out []byte) ([]byte, error) {
	all := []json.RawMessage{}
	for line := range bytes.Lines(out) {
		all = append(all, json.RawMessage(bytes.TrimSpace(line)))
	}
	translated, err := json.Marshal(all)
	return append(translated, '\n'), err
}

func runDiff(_ context.Context, _ DiffOptions, gopts global.Options, args []string, term ui.Terminal) error {
	out, err := output(gopts, term, append([]string{"diff"}, args...)...)
	if gopts.JSON && err == nil {
		out, err = translateDiff(out, gopts.Quiet)
	} else {
		text := strings.NewReplacer("added", "new", "Blocks:", "Data Blobs:").Replace(string(out))
		out = []byte(text)
	}
	show(term, out)
	return err
}

// translateDiff gives the last line restic's names, and leaves the others out if restic would.
func translateDiff(out []byte, quiet bool) ([]byte, error) {
	var translated []byte
	for line := range bytes.Lines(out) {
		var ours struct {
			MessageType        string `json:"message_type"`
			Old                string `json:"old_snapshot_id"`
			New                string `json:"new_snapshot_id"`
			FilesAdded         int    `json:"files_added"`
			FilesRemoved       int    `json:"files_removed"`
			FilesChanged       int    `json:"files_changed"`
			DirectoriesAdded   int    `json:"directories_added"`
			DirectoriesRemoved int    `json:"directories_removed"`
			BlocksAdded        int    `json:"blocks_added"`
			BlocksRemoved      int    `json:"blocks_removed"`
		}
		if err := json.Unmarshal(line, &ours); err != nil {
			return nil, err
		}
		if ours.MessageType != "statistics" {
			if !quiet {
				translated = append(translated, line...)
			}
			continue
		}
		stats := DiffStatsContainer{MessageType: ours.MessageType, SourceSnapshot: ours.Old,
			TargetSnapshot: ours.New, ChangedFiles: ours.FilesChanged,
			Added: DiffStat{Files: ours.FilesAdded, Dirs: ours.DirectoriesAdded,
				DataBlobs: ours.BlocksAdded},
			Removed: DiffStat{Files: ours.FilesRemoved, Dirs: ours.DirectoriesRemoved,
				DataBlobs: ours.BlocksRemoved}}
		line, err := json.Marshal(stats)
		if err != nil {
			return nil, err
		}
		translated = append(append(translated, line...), '\n')
	}
	return translated, nil
}

func runSnapshots(_ context.Context, opts SnapshotOptions, gopts global.Options, args []string, term ui.Terminal) error {
	arguments := append([]string{"snapshots"}, flags(opts)...)
	return tabane(gopts, term, append(arguments, args...)...)
}

func runMount(_ context.Context, opts MountOptions, gopts global.Options, args []string, term ui.Terminal) error {
	return tabane(gopts, term, "mount", "--time-template=%Y-%m-%dT%H:%M:%SZ", args[0])
}

func runKeyAdd(_ context.Context, gopts global.Options, opts KeyAddOptions, args []string, term ui.Terminal) error {
	return key(gopts, term, "add", opts, args)
}

func runKeyPasswd(_ context.Context, gopts global.Options, opts KeyPasswdOptions, args []string, term ui.Terminal) error {
	return key(gopts, term, "passwd", opts.KeyAddOptions, args)
}

func key(gopts global.Options, term ui.Terminal, what string, opts KeyAddOptions, args []string) error {
	arguments := append(append([]string{"key", what}, flags[keyOptions](keyOptions(opts))...), args...)
	if testKeyNewPassword != "" || opts.NewPasswordFile == "" {
		file := filepath.Join(filepath.Dir(gopts.Repo), "new-password")
		if err := os.WriteFile(file, []byte(password(testKeyNewPassword)), 0o600); err != nil {
			return err
		}
		arguments = append(arguments, "--new-password-file="+file)
	}
	return tabane(gopts, term, arguments...)
}

// keyOptions gives the options of keys the shape that flags expects.
type keyOptions KeyAddOptions

func (options *keyOptions) AddFlags(set *pflag.FlagSet) { (*KeyAddOptions)(options).Add(set) }

func runKeyList(_ context.Context, gopts global.Options, args []string, term ui.Terminal) error {
	return tabane(gopts, term, append([]string{"key", "list"}, args...)...)
}

func runKeyRemove(_ context.Context, gopts global.Options, args []string, term ui.Terminal) error {
	return tabane(gopts, term, append([]string{"key", "remove"}, args...)...)
}

// openWithReadLock stands where tests look into the repository; run.py replaces what they ask of it.
func openWithReadLock(ctx context.Context, _ global.Options, _ bool, _ progress.Printer) (context.Context, *repository.Repository, func(), error) {
	return ctx, nil, func() {}, nil
}

// loadAll returns every snapshot, oldest first.
func loadAll(gopts global.Options, term ui.Terminal) ([]Snapshot, error) {
	gopts.JSON = true
	out, err := output(gopts, term, "snapshots")
	if err != nil {
		return nil, err
	}
	var all []Snapshot
	var summaries []struct {
		FilesNew        uint      `json:"files_new"`
		FilesChanged    uint      `json:"files_changed"`
		FilesUnmodified uint      `json:"files_unmodified"`
		TotalBytes      uint64    `json:"total_bytes"`
		EndTime         time.Time `json:"end_time"`
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &summaries); err != nil {
		return nil, err
	}
	for i, ours := range summaries {
		all[i].Summary = &data.SnapshotSummary{
			BackupEnd:           ours.EndTime,
			TotalFilesProcessed: ours.FilesNew + ours.FilesChanged + ours.FilesUnmodified,
			TotalBytesProcessed: ours.TotalBytes,
		}
	}
	return all, nil
}

// load returns the snapshot with this ID.
func load(gopts global.Options, term ui.Terminal, id restic.ID) (*data.Snapshot, error) {
	all, err := loadAll(gopts, term)
	for _, snapshot := range all {
		if *snapshot.ID == id {
			return snapshot.Snapshot, nil
		}
	}
	return nil, err
}

// packs lists packs with the blocks of files or of directories.
func packs(gopts global.Options, term ui.Terminal) (files, trees restic.IDSet, err error) {
	files, trees = restic.NewIDSet(), restic.NewIDSet()
	gopts.JSON = true
	out, err := output(gopts, term, "list", "blocks")
	if err != nil {
		return
	}
	for line := range bytes.Lines(out) {
		var block struct {
			Pack restic.ID `json:"pack"`
			Kind string    `json:"kind"`
		}
		if err = json.Unmarshal(line, &block); err != nil {
			return
		}
		if block.Kind == "tree" {
			trees.Insert(block.Pack)
		} else {
			files.Insert(block.Pack)
		}
	}
	return
}

// remove deletes packs behind Tabane's back.
func remove(gopts global.Options, ids restic.IDSet) error {
	for id := range ids {
		name := id.String()
		if err := os.Remove(filepath.Join(gopts.Repo, "packs", name[:2], name)); err != nil {
			return err
		}
	}
	return nil
}
