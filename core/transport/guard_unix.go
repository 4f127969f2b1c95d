//go:build unix

package transport

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// The guard is one small shell per host process that outlives the host by a
// moment and ends what the host could not: a host killed with SIGKILL runs no
// code, and a grandchild that ignores EOF would stay for ever. It is told each
// server's process group on its stdin. When that ends it sends SIGTERM to the
// groups that are left, and SIGKILL half a second later. Descendants that left
// their group are out of reach.
//
// The pipe does not end where the host forked a child that never execs and so
// holds it open. For that the kernel reports the host's death (see guardAttr); the
// guard then reads for another tenth of a second, since the host's last words may
// still be in the pipe. The report may come several times, once per thread.
//
// A host may also die between the fork of a server and the word about its group. So
// the guard is told of a birth before it: the pipe that will be the server's stdin or
// stdout. Where there is a /proc, it looks who has that pipe there, and ends that
// group too, until a second after the host's death: a fork that was under way goes on
// without its host.
//
// The guard exists only while there are servers: told that the last one is gone,
// it ends with nothing to do.
const guardScript = `
trap '' HUP INT QUIT TERM PIPE
exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
groups= births= timer= reading=1
find() {
  [ -n "$births" ] || return
  for f in /proc/[0-9]*/fd/[01]; do
    pipe=$(readlink "$f" 2>/dev/null) || continue
    case "$births " in *" $pipe "*) ;; *) continue ;; esac
    pid=${f#/proc/}
    read -r stat <"/proc/${pid%%/*}/stat" || continue
    set -- ${stat##*) }
    [ "${3:-0}" -gt 1 ] && groups="$groups $3"
  done 2>/dev/null
}
tell() { for g in $groups; do kill -s "$1" -- "-$g"; done; }
sweep() {
  trap '' URG USR2
  [ -z "$timer" ] || kill -s KILL "$timer"
  find
  if [ -n "$groups$births" ]; then
    tell TERM
    sleep 0.5 || sleep 1
    find
    tell KILL
  fi
  if [ -n "$births" ]; then
    sleep 0.5 || sleep 1
    find
    tell KILL
  fi
  exit 0
}
died() {
  trap '' URG
  reading=1 # the signal may have ended the read below, which is not the end
  # Again and again: a signal just before a read begins does not end that read.
  { while sleep 0.1 || sleep 1; do kill -s USR2 $$ || exit; done; } &
  timer=$!
}
trap died URG
trap sweep USR2
[ "$PPID" = "$1" ] || died
while [ -n "$reading" ]; do
  reading=
  while read -r op group; do
    case $op in
    '?') births="$births $group" ;;
    '!') left=
       for b in $births; do [ "$b" = "$group" ] || left="$left $b"; done
       births=$left ;;
    +) groups="$groups $group" ;;
    -) left=
       for g in $groups; do [ "$g" = "$group" ] || left="$left $g"; done
       groups=$left ;;
    .) sweep ;;
    esac
  done
done
sweep
`

// guard is the host process's only one; a package variable, since any number of
// managers share the process.
var guard = guardian{shell: "/bin/sh"}

type guardian struct {
	shell string

	mu     sync.Mutex
	users  int   // servers that are starting or not yet over
	groups []int // those that the guard must know
	births []string
	pipe   *os.File
	ended  chan struct{} // closed when the shell behind pipe has ended and was reaped
	pid    int
	kill   func()
}

// enter is called before a server starts. An error means that servers run
// unguarded, which is worth a warning and no reason not to start.
func (g *guardian) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
	if g.pipe != nil {
		select {
		case <-g.ended:
			g.drop()
		default:
			return nil
		}
	}
	return g.start()
}

// launch starts a server that is known to the guard from its fork on. end is the pipe
// that will be its stdin or stdout.
func (g *guardian) launch(cmd *exec.Cmd, end *os.File) error {
	name := g.birth(end)
	defer g.born(name)
	err := cmd.Start()
	if err == nil {
		g.add(cmd.Process.Pid)
	}
	return err
}

// birth is called before a fork, with the pipe that will be the child's stdin or
// stdout; born ends it, whatever came of it.
func (g *guardian) birth(end *os.File) (name string) {
	if name = pipeName(end); name == "" {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.births = append(g.births, name)
	g.write("? " + name + "\n")
	return name
}

func (g *guardian) born(name string) {
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.births, name); i >= 0 {
		g.births = slices.Delete(g.births, i, i+1)
	}
	g.write("! " + name + "\n")
}

// add names a group that runs now.
func (g *guardian) add(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups = append(g.groups, group)
	g.write(fmt.Sprintf("+ %d\n", group))
}

// leave ends what enter began; group is 0 when the server could not be started. To
// be called as soon as the group is over, since its number may then be given away.
func (g *guardian) leave(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if i := slices.Index(g.groups, group); i >= 0 {
		g.groups = slices.Delete(g.groups, i, i+1)
		g.write(fmt.Sprintf("- %d\n", group))
	}
	if g.users > 0 {
		return
	}
	g.write(".\n") // the pipe's end alone does not reach it while a forked child of the host holds the pipe
	if g.pipe != nil {
		g.pipe.Close()
		g.pipe = nil
		select {
		case <-g.ended: // in a millisecond: it has nothing to do
		case <-time.After(time.Second):
			g.kill()
		}
	}
}

func (g *guardian) write(line string) {
	if g.pipe == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := g.pipe.WriteString(line); err != nil {
		g.drop() // the next enter starts another
	}
}

// drop gives up a guard that is dead or does not read. It is killed before its
// pipe is closed: one that was only stopped would later end all that it knows.
func (g *guardian) drop() {
	g.kill()
	g.pipe.Close()
	g.pipe = nil
}

func (g *guardian) start() error {
	r, w, err := pipe(true)
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := &exec.Cmd{
		Path: g.shell,
		// The name is for people who look at a list of processes.
		Args:        []string{"sh", "-c", guardScript, "mcprt-guard", fmt.Sprint(os.Getpid())},
		Env:         []string{"PATH=/usr/bin:/bin"},
		Dir:         "/",
		Stdin:       r,
		ExtraFiles:  strangers(r),
		SysProcAttr: guardAttr(),
	}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer func() {
			if p := recover(); p != nil {
				started <- fmt.Errorf("panic: %v", p)
			}
			close(ended)
		}()
		// This thread must live as long as the guard: see guardAttr. Wait needs one anyway.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		w.Close()
		return err
	}
	g.pipe, g.ended, g.pid, g.kill = w, ended, cmd.Process.Pid, func() { cmd.Process.Kill() }
	var all strings.Builder
	for _, name := range g.births {
		fmt.Fprintf(&all, "? %s\n", name)
	}
	for _, group := range g.groups {
		fmt.Fprintf(&all, "+ %d\n", group)
	}
	if all.Len() > 0 {
		g.write(all.String())
	}
	return nil
}
