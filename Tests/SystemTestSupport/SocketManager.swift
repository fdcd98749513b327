import CLinux
import TestSupport

/// A service manager's part in Python: it binds sockets, passes them to the program and replaces the program when it is told to.
enum SocketManager {
    /// Arguments: what to bind, a comma between two (`NAME=tcp`, `NAME=any`, `NAME=unix:/path`, `NAME=datagram`, `NAME=closed` for a number
    /// that is named and not passed); how often the program is
    /// replaced; then its command. It prints `port N` for each TCP socket, `ready` when the first program serves, `replaced` for each
    /// further one. It replaces a program when it gets SIGUSR1. The last one runs until it ends by itself or the script is killed.
    private static let script = #"""
        import os, select, signal, socket, subprocess, sys, tempfile
        places, count, command = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3:]
        folder = tempfile.mkdtemp()
        # Each socket out of the way first: one of them may have a number that another is to get.
        notify = socket.socket(fileno=os.dup2(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).detach(), 90))
        notify.bind(folder + "/notify")
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        sockets = []
        for place in places:
            kind = place.split("=", 1)[1]
            if kind.startswith("unix:"):
                made = socket.socket(socket.AF_UNIX)
                made.bind(kind[5:])
            else:
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
                made.bind(("0.0.0.0" if kind == "any" else "127.0.0.1", 0))
                print("port", made.getsockname()[1], flush=True)
            if kind != "datagram": made.listen(1024)
            sockets.append(made)
        numbers = range(3, 3 + len(sockets))
        held = [os.dup2(made.fileno(), 100 + index) for index, made in enumerate(sockets)]
        for number, raw in zip(numbers, held): os.dup2(raw, number, inheritable=True)
        passed = [number for number, place in zip(numbers, places) if not place.endswith("=closed")]
        names = ":".join(place.split("=", 1)[0] for place in places)
        environment = dict(os.environ, LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES=names, NOTIFY_SOCKET=folder + "/notify")
        start = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"] + command

        def unblock(): signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])

        def begin():
            child = subprocess.Popen(start, env=environment, pass_fds=passed, preexec_fn=unblock)
            end = os.pidfd_open(child.pid)
            while notify in select.select([notify, end], [], [])[0]:
                if notify.recv(4096).startswith(b"READY=1"):
                    os.close(end)
                    return child
            sys.exit(f"not ready, status {child.wait()}")

        if count < 0: sys.exit(subprocess.run(start, env=environment, pass_fds=passed).returncode)
        child = begin()
        print("ready", flush=True)
        for _ in range(count):
            signal.sigwait([signal.SIGUSR1])
            child.send_signal(signal.SIGTERM)
            child.wait()
            child = begin()
            print("replaced", flush=True)
        # The end of the test kills this script, and the program with it.
        sys.exit(child.wait())
        """#

    /// - Parameter replacements: -1: the program is run once to its end, without a wait.
    static func start(_ places: [String], replacements: Int = 0, _ arguments: [String]) throws -> ServerProcess {
        let program = ["/usr/bin/setpriv", "--pdeathsig", "KILL", try Products.path("lanyard")]
        return try ServerProcess(
            "/usr/bin/python3",
            ["-c", script, places.joined(separator: ","), "\(replacements)"] + program + arguments)
    }

    /// The port of the TCP socket at this place among the TCP sockets.
    static func port(_ place: Int = 0, of manager: ServerProcess) async throws -> UInt16 {
        var ports: [UInt16] = []
        try await eventually("the manager has bound its sockets:\n\(manager.log)") {
            ports = manager.output.matches(of: /port (\d+)\n/).compactMap { UInt16($0.1) }
            return ports.count > place
        }
        return ports[place]
    }
}
