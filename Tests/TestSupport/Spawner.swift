import CLinux
import Foundation
import Glibc
import LanyardFoundations

/// The only thread that starts processes. It lives as long as the tests.
///
/// The kernel kills a child when its parent *thread* ends (`PR_SET_PDEATHSIG`). So children die with the tests, even after a crash, and
/// not when a worker thread ends.
final class Spawner: Sendable {
    static let shared = Spawner()
    private let queue = Guarded<[@Sendable () -> Void]>([])
    private let semaphore = DispatchSemaphore(value: 0)

    private init() {
        Thread.detachNewThread { [self] in
            while true {
                semaphore.wait()
                queue.withLock { $0.isEmpty ? nil : $0.removeFirst() }?()
            }
        }
    }

    /// A started process and the reading ends of its two pipes.
    struct Child: Sendable {
        var pid: pid_t = 0
        var output: CInt = -1
        var errors: CInt = -1
    }

    /// Starts a program with exactly this environment and no other descriptor of the tests.
    func spawn(
        _ arguments: [String], environment: [String], input: ServerProcess.Input = .none
    ) throws -> Child {
        let done = DispatchSemaphore(value: 0)
        let result = Guarded<Result<Child, any Error>>(.success(Child()))
        queue.withLock {
            $0.append {
                let outcome = Result { try Self.start(arguments, environment, input) }
                result.withLock { $0 = outcome }
                done.signal()
            }
        }
        semaphore.signal()
        let patience = Patience()
        while done.wait(timeout: .now() + .seconds(1)) == .timedOut {
            if patience.isExhausted { throw patience.failure("\(arguments[0]) starts") }
        }
        return try result.withLock { $0 }.get()
    }

    private static func start(
        _ arguments: [String], _ environment: [String], _ input: ServerProcess.Input
    ) throws -> Child {
        let output = try pipe()
        let errors = try pipe()
        defer {
            close(output.write)
            close(errors.write)
        }
        let (pid, failure) = start(arguments, environment, input, output.write, errors.write)
        guard failure == 0 else {
            close(output.read)
            close(errors.read)
            throw TestFailure("starting \(arguments[0]): errno \(failure)")
        }
        return Child(pid: pid, output: output.read, errors: errors.read)
    }

    private static func pipe() throws -> (read: CInt, write: CInt) {
        var ends: [CInt] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw TestFailure("pipe: errno \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static func start(
        _ arguments: [String], _ environment: [String], _ input: ServerProcess.Input, _ output: CInt, _ errors: CInt
    ) -> (pid_t, CInt) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        switch input {
        case .none: posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        case .file(let path): posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0)
        case .terminal(let terminal, _): posix_spawn_file_actions_addopen(&actions, 0, terminal.path, O_RDWR, 0)
        }
        if case .terminal(_, showsOutput: true) = input {
            posix_spawn_file_actions_adddup2(&actions, 0, 1)
        } else {
            posix_spawn_file_actions_adddup2(&actions, output, 1)
        }
        posix_spawn_file_actions_adddup2(&actions, errors, 2)
        // Descriptors that other tests are opening may not be close-on-exec yet. A long-lived child would keep their pipes and sockets
        // open, and readers would not see the end of a stream before that child ends.
        guard closeFrom(&actions, 3) == 0 else { return (0, ENOMEM) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A test runner may block signals. The child starts with the signal settings of a shell and in its own process group.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigdefault(&attributes, &all)
        // The leader of a new session gets the terminal that it opens as its controlling one, with ^C and SIGHUP.
        let group = if case .terminal = input { newSession } else { CInt(POSIX_SPAWN_SETPGROUP) }
        posix_spawnattr_setflags(
            &attributes, Int16(CInt(POSIX_SPAWN_SETSIGMASK) | CInt(POSIX_SPAWN_SETSIGDEF) | group))
        var pid: pid_t = 0
        let failure = withCStrings(arguments) { argv in
            withCStrings(environment) { envp in posix_spawnp(&pid, arguments[0], &actions, &attributes, argv, envp) }
        }
        return (pid, failure)
    }

    /// POSIX_SPAWN_SETSID of <spawn.h>, which is not in POSIX.
    private static let newSession: CInt = 0x80

    /// `posix_spawn_file_actions_addclosefrom_np` of glibc 2.34. Swift's Glibc module has POSIX only.
    private typealias CloseFrom = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, CInt) -> CInt
    private static let closeFrom: CloseFrom = {
        guard let symbol = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") else {
            fatalError("this C library cannot close descriptors of a child: glibc 2.34 is the first that can")
        }
        return unsafeBitCast(symbol, to: CloseFrom.self)
    }()

    private static func withCStrings<Result>(
        _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let copies = strings.map { strdup($0) }
        defer { copies.forEach { free($0) } }
        return body(copies + [nil])
    }
}
