import ArgumentParser
import CLinux
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import LanyardVault

/// The file that `lanyard init` writes, and the store's key beside it.
struct InitFile {
    /// As the operator gave it.
    let path: String

    /// The folder of the package, whose store has a place of its own.
    private static let packageFolder = "/etc/lanyard"
    private static let keyName = "store.key"

    /// The path as a word of a shell.
    var shown: String { ShellWord.text(path) }

    /// The folder as the operator wrote it; `.`: the working folder.
    private var folder: String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// It is the package's, whose service has a Unix user of its own.
    var isOfPackage: Bool { folder == Self.packageFolder }

    /// The key that `init` makes, or uses if it is there.
    var keyPath: String {
        folder == "." ? Self.keyName : folder == "/" ? "/" + Self.keyName : "\(folder)/\(Self.keyName)"
    }

    /// Before anything is asked: a file that exists stays as it is, and one that cannot be made needs no questions.
    func checkPlace() throws {
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
            throw CommandFailure.failed(
                "\(path) is a folder", "give the path of the file to write with --output", exitCode: 78)
        }
        if NewFile.isTaken(path) { throw report(.exists, path) }
        if let code = NewFile.obstacle(inFolderOf: path) { throw report(.refused(code), path) }
    }

    /// Writes the configuration, and the store's key before it.
    func write(_ draft: ConfigurationDraft) throws {
        let wantsStore = draft.login?.wantsStore == true && !draft.hasStoreFlag
        let isFirst = !NewFile.isTaken(keyPath)
        var addition = ConfigurationDraft.Addition()
        if wantsStore {
            // Lanyard makes the folder of a store, mode 0700. That of the file may be open to other users, which no store allows.
            addition.store = (isOfPackage ? "/var/lib/lanyard/sessions" : "sessions/store", Self.keyName)
        }
        if !draft.hasAdminFlag { addition.adminAddress = adminAddress }
        let isElsewhere = folder != "." && WorkingFolder.absolute(folder) != WorkingFolder.absolute(".").dropLast(2)
        let working = isElsewhere ? String(WorkingFolder.absolute(".").dropLast(2)) : nil
        let text = draft.text(name: shown, folder: working.map { $0.isEmpty ? "/" : $0 }, adding: addition)
        let former = blocked()
        defer { unblock(former) }
        if wantsStore, isFirst { try makeKey() }
        do throws(NewFile.MakeError) {
            try Self.make(path, Array(text.utf8))
        } catch {
            if wantsStore, isFirst { unlink(keyPath) }
            throw report(error, path)
        }
        Report.output("\(path) is written.")
        if wantsStore, isFirst { Report.output("\(keyPath) is written: the key of the store. Keep it.") }
    }

    private func makeKey() throws {
        let key: Secret
        do throws(StoreError) {
            key = try OpenedStore.newKey()
        } catch {
            throw CommandFailure.failed(error.message, "repeat the command; nothing was written", exitCode: 78)
        }
        let error = key.withBytes { bytes -> NewFile.MakeError? in
            do throws(NewFile.MakeError) {
                try NewFile.make(keyPath, content: bytes)
                return nil
            } catch {
                return error
            }
        }
        if let error { throw report(error, keyPath) }
    }

    private static func make(_ path: String, _ content: [UInt8]) throws(NewFile.MakeError) {
        let error = content.withUnsafeBytes { bytes -> NewFile.MakeError? in
            do throws(NewFile.MakeError) {
                try NewFile.make(path, content: bytes)
                return nil
            } catch {
                return error
            }
        }
        if let error { throw error }
    }

    private func report(_ error: NewFile.MakeError, _ path: String) -> ExitCode {
        switch error {
        case .exists:
            CommandFailure.failed(
                "\(path) exists: nothing was written", "give another path with --output, or move that file away",
                exitCode: 78)
        case .refused(let code):
            CommandFailure.failed(
                "\(path) cannot be made (\(Errno.text(of: code))): nothing was written",
                "give --output a path in a folder that exists and that you may write to", exitCode: 78)
        case .unwritten(let code):
            CommandFailure.failed(
                "\(path) cannot be written (\(Errno.text(of: code))): nothing is left of it",
                "make room, or give --output a path on another disk", exitCode: 74)
        }
    }

    /// Where no default place is, commands would not find the running Lanyard.
    private var adminAddress: String? {
        guard AdminSettings.defaultFolder(environment: ProcessEnvironment.all(), uid: geteuid()) == nil else {
            return nil
        }
        let whole =
            folder == "." ? WorkingFolder.absolute("admin.sock") : WorkingFolder.absolute("\(folder)/admin.sock")
        let address = "unix:\(whole)"
        // Too long a path is no address; then there is none, as without this key.
        return (try? ConfigurationValue.listenAddress.check(address)) == nil ? nil : address
    }

    // MARK: Signals

    /// A signal between the two names would leave the temporary one.
    private func blocked() -> sigset_t {
        var (set, former) = (sigset_t(), sigset_t())
        sigemptyset(&set)
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP] { sigaddset(&set, signal) }
        sigprocmask(SIG_BLOCK, &set, &former)
        return former
    }

    private func unblock(_ former: sigset_t) {
        var former = former
        sigprocmask(SIG_SETMASK, &former, nil)
    }
}

/// What an operator does after `lanyard init`.
struct InitNextSteps {
    let lines: [String]

    init(_ draft: ConfigurationDraft, _ file: InitFile) {
        var steps: [String] = []
        for (flag, what) in Self.secrets {
            guard let path = draft.text(flag), access(path, F_OK) != 0 else { continue }
            let word = ShellWord.text(path)
            steps.append("write the \(what) into its file: (umask 077; cat > \(word)), paste it, return, Ctrl-D")
        }
        // The service has a Unix user of its own, whose store no other user may write.
        let isOfService = file.isOfPackage && geteuid() == 0
        if isOfService {
            var files = Self.secrets.compactMap { draft.text($0.0).map(ShellWord.text) }
            if draft.login?.wantsStore == true, !draft.hasStoreFlag { files.append(ShellWord.text(file.keyPath)) }
            let words = ([file.shown] + files).joined(separator: " ")
            steps.append("let the service read them: chown root:lanyard \(words) && chmod 640 \(words)")
        }
        let logsIn = draft.login == .clientCredentials || draft.login == .appServices
        let check = logsIn ? "lanyard check --online --login" : "lanyard check --online"
        let asService = isOfService ? "runuser -u lanyard -- " : ""
        steps.append("\(asService)\(check) --config \(file.shown)")
        steps.append("\(asService)lanyard run --config \(file.shown)")
        if draft.login?.isInteractive == true {
            let shows = draft.login == .device ? "an address and a code" : "an address for a browser on this machine"
            steps.append("in another terminal: lanyard login default --config \(file.shown) (shows \(shows))")
        }
        if let curl = Self.curl(draft) { steps.append(curl) }
        lines = ["What to do next:"] + steps.enumerated().map { "  \($0.offset + 1). \($0.element)" }
    }

    private static let secrets = [
        ("--client-secret-file", "client's secret"), (ConfigurationDraft.refreshTokenFlag, "refresh token"),
        ("--token-file", "token"), ("--password-file", "password"), ("--api-key-file", "API key"),
        ("--jwt-file", "JWT"), ("--function-payload-file", "JSON of the function"),
    ]

    /// A first request; nil: the listener asks for more than an address.
    private static func curl(_ draft: ConfigurationDraft) -> String? {
        let checks = ["--capability-file", "--client-ca-file", "--required-header", "--tls-certificate-file"]
        guard !checks.contains(where: { draft.text($0) != nil }) else { return nil }
        let address = draft.text("--listen") ?? "127.0.0.1:7400"
        if address.hasPrefix("unix:") {
            return "curl --unix-socket \(ShellWord.text(String(address.dropFirst(5)))) http://localhost/"
        }
        return address.hasPrefix("systemd:") || address.hasSuffix(":0") ? nil : "curl http://\(address)/"
    }
}
