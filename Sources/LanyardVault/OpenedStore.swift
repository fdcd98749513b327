import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// The store as the program's start needs it: opened before the first thread, while the process may read its key.
package struct OpenedStore: Sendable {
    private enum Place {
        case memory
        /// `openFileLock` is `PATH.open`, held shared until the process ends. A rekey needs it exclusively.
        case file(StoreFile, openFileLock: any DiskLock)
    }

    /// The contents found.
    package let contents: StoreContents
    /// Why the store cannot be written yet. New sessions live in memory until it can.
    package let unwritten: StoreError?
    private let logEvents: [StoreLogEvent]
    private let place: Place

    /// Opens, checks and reads. Blocks as long as the disk does, and at most 10 s while another process writes. Starts no thread.
    ///
    /// - Throws: what an operator must do, with the path. The file is unchanged. Only `busy` passes without an operator.
    package static func open(_ settings: StoreSettings) throws(StoreError) -> OpenedStore {
        switch settings {
        case .memory:
            return OpenedStore(
                contents: StoreContents(fingerprintKey: try randomKey()), unwritten: nil, logEvents: [], place: .memory)
        case .file(let path, let keyFile):
            let secret = try StoreSecret.read(keyFile)
            return try open(file(path, makesFolder: true, sealing: AESSealing(secret)))
        }
    }

    /// The same for a file on a given disk.
    ///
    /// - Throws: as `open(_:)` of the settings does, except for the findings of the key file.
    package static func open(_ file: StoreFile) throws(StoreError) -> OpenedStore {
        try file.inspect()
        let openFileLock = try retryingWhileBusy { () throws(StoreError) in try file.lockOpenFile(.shared) }
        let (contents, unwritten) = try retryingWhileBusy { () throws(StoreError) in try file.begin() }
        return OpenedStore(
            contents: contents, unwritten: unwritten, logEvents: file.takeLogEvents(),
            place: .file(file, openFileLock: openFileLock))
    }

    /// What `inspect` has found that would stop `open`.
    package struct Obstacle: Equatable, Sendable {
        /// Why `open` would fail.
        package let error: StoreError
        /// `open` fails for every user; otherwise it may succeed for another user of the machine.
        package let isForEveryUser: Bool
        /// The key or passphrase is at fault, not the file or its folder.
        package let isAboutSecret: Bool

        fileprivate init(_ error: StoreError, isForEveryUser: Bool, isAboutSecret: Bool = false) {
            self.error = error
            self.isForEveryUser = isForEveryUser
            self.isAboutSecret = isAboutSecret
        }
    }

    /// What `open` would report of an existing store. Changes nothing: it makes no lock, folder or file.
    ///
    /// - Returns: nil if `open` would succeed.
    package static func inspect(at settings: StoreSettings) -> Obstacle? {
        guard case .file(let text, let keyFile) = settings else { return nil }
        let sealing: AESSealing
        do throws(StoreError) {
            sealing = AESSealing(try StoreSecret.read(keyFile))
        } catch {
            let isForThisUser = if case .system = error.kind { true } else { error.kind == .foreignOwner }
            return Obstacle(error, isForEveryUser: !isForThisUser, isAboutSecret: true)
        }
        return inspect(text, sealing)
    }

    private static func inspect(_ text: String, _ sealing: AESSealing) -> Obstacle? {
        let path: StorePath
        let disk: SystemDisk
        do throws(StoreError) {
            path = try storePath(text)
            FileProgress.note(text)
            defer { FileProgress.noteEnd() }
            disk = try Self.disk(path, makesFolder: false)
            try StoreFile(path, on: disk, sealing: sealing, fingerprintKey: try randomKey()).inspect()
        } catch {
            return switch error.kind {
            case .system(ENOENT): folderObstacle(to: text)
            case .system(ENOTDIR): Obstacle(error, isForEveryUser: true)
            case .foreignOwner, .system: Obstacle(error, isForEveryUser: false)
            case .wrongKey: Obstacle(error, isForEveryUser: true, isAboutSecret: true)
            case .busy, .damaged, .newerVersion, .unsafeMode, .notRegular, .unfit, .shareFull:
                Obstacle(error, isForEveryUser: true)
            }
        }
        FileProgress.note(text)
        defer { FileProgress.noteEnd() }
        do throws(DiskError) {
            try disk.checkWritable()
            return nil
        } catch {
            // The folder belongs to this user, and `open` refuses another user's folder.
            return Obstacle(StoreError(path, error, owner: disk.owner), isForEveryUser: true)
        }
    }

    /// There is no folder: whether `open` could make it.
    private static func folderObstacle(to text: String) -> Obstacle? {
        guard let path = StorePath(text) else { return nil }
        FileProgress.note(text)
        defer { FileProgress.noteEnd() }
        do throws(DiskError) {
            try SystemDisk.checkCreatable(folder: path.folder)
            return nil
        } catch {
            let isForThisUser = error.code == EACCES || error.code == EROFS
            return Obstacle(StoreError(path, error, owner: geteuid()), isForEveryUser: !isForThisUser)
        }
    }

    /// Changes the key of a store that no process has open.
    ///
    /// - Throws: `busy` if a process has it open; else the reason. The file then keeps its former seal.
    package static func rekey(
        path: String, from old: StoreSettings.KeyFile, to new: StoreSettings.KeyFile
    ) throws(StoreError) {
        let (oldSecret, newSecret) = (try StoreSecret.read(old), try StoreSecret.read(new))
        let file = try file(path, makesFolder: false, sealing: AESSealing(oldSecret))
        let openFileLock = try lockAlone(file, to: "rekey it")
        defer { openFileLock.release() }
        try retryingWhileBusy { () throws(StoreError) in try file.reseal(with: AESSealing(newSecret)) }
    }

    /// Writes what a store holds as a new file of format 1, which releases before this one read, under the same key.
    ///
    /// - Throws: `busy` if a process has the store open: its next refresh would use up a token of the copy. Else the reason. Neither file
    ///   has changed, and there is no copy.
    package static func export(
        path: String, keyFile: StoreSettings.KeyFile, to copy: String
    ) throws(StoreError) {
        let file = try file(path, makesFolder: false, sealing: AESSealing(try StoreSecret.read(keyFile)))
        let target = try storePath(copy)
        let folder = try disk(target, makesFolder: false)
        let openFileLock = try lockAlone(file, to: "export it")
        defer { openFileLock.release() }
        let bytes = try retryingWhileBusy { () throws(StoreError) in try file.format1() }
        do throws(DiskError) {
            try write(bytes, as: target.name, in: folder)
        } catch  where error.code == EEXIST {
            throw StoreError(.system(EEXIST), message: "\(copy) exists already; name a file that does not")
        } catch {
            throw StoreError(target, error, owner: folder.owner)
        }
    }

    private static func write(_ bytes: [UInt8], as name: String, in folder: SystemDisk) throws(DiskError) {
        let writer = try folder.create(name)
        do throws(DiskError) {
            try writer.write(all: bytes)
            try writer.sync()
            try folder.syncFolder()
        } catch {
            try? folder.remove(name)
            throw error
        }
    }

    /// Takes `PATH.open` of an existing store for work that no process with the store open may see.
    private static func lockAlone(_ file: StoreFile, to purpose: String) throws(StoreError) -> any DiskLock {
        let path = file.path.path
        guard try file.inspect() else {
            throw StoreError(
                .system(ENOENT),
                message: "there is no store at \(path) yet: the first run creates one with the configured key")
        }
        do throws(StoreError) {
            return try file.lockOpenFile(.exclusive)
        } catch  where error.kind == .busy {
            throw StoreError(.busy, message: "\(path) is in use; stop every Lanyard that has it open, then \(purpose)")
        }
    }

    /// Sessions end with the process.
    package var isMemoryOnly: Bool {
        if case .memory = place { true } else { false }
    }

    /// The store for the life of the process. Its queue exists from now on, its thread only from the first call on.
    ///
    /// - Throws: `.machine` errors if no descriptor is available.
    package func store(log: Logger) throws(SystemError) -> any SessionStore {
        switch place {
        case .memory: MemoryStore(fingerprintKey: contents.fingerprintKey)
        case .file(let file, let openFileLock):
            try SealedStore(
                file, openFileLock: openFileLock, unwritten: unwritten, loop: EventLoop(label: "lanyard.store"),
                log: log)
        }
    }

    /// Logs where sessions are stored, and one line for each condition that needs an operator's attention.
    package func announce(on log: Logger) {
        guard case .file(let file, _) = place else {
            return log.warning(
                "sessions are kept in memory only: a restart forgets every login; name a file with store.path and store.key_file",
                metadata: ["event": "store.memory_only"])
        }
        for event in logEvents { event.announce(of: file.path, on: log) }
        if let unwritten {
            log.error("\(unwritten.message)", metadata: ["event": "store.write_failed", "path": "\(file.path.path)"])
        }
        log.info(
            "the store is open",
            metadata: [
                "event": "store.opened", "path": "\(file.path.path)",
                "users": .stringConvertible(contents.users.count), "writes": .stringConvertible(contents.writes),
            ])
        for user in contents.users {
            guard let intent = user.intent else { continue }
            log.warning(
                "a call was in flight when the last process ended: its outcome is unknown",
                metadata: [
                    "event": "store.intent.open", "user": "\(user.name)", "kind": "\(intent.kind.rawValue)",
                    "tries": .stringConvertible(intent.tries),
                ])
        }
    }

    private static func file(
        _ text: String, makesFolder: Bool, sealing: any Sealing
    ) throws(StoreError) -> StoreFile {
        let path = try storePath(text)
        let fingerprintKey = try randomKey()
        return StoreFile(
            path, on: try disk(path, makesFolder: makesFolder), sealing: sealing, fingerprintKey: fingerprintKey)
    }

    private static func storePath(_ text: String) throws(StoreError) -> StorePath {
        guard let path = StorePath(text) else {
            throw StoreError(
                .unfit,
                message:
                    "\(text) cannot be a store's path; name a file that does not end in .lock, .open, .tmp, .used or .v1"
            )
        }
        return path
    }

    private static func disk(_ path: StorePath, makesFolder: Bool) throws(StoreError) -> SystemDisk {
        do throws(DiskError) {
            return try SystemDisk(folder: path.folder, makesFolder: makesFolder)
        } catch {
            throw StoreError(path, error, owner: geteuid())
        }
    }

    /// Random bytes of a new key file, with a byte that no text has: `check` would take other ones for a text with a mistake, one in fifty.
    ///
    /// - Throws: `unfit` if OpenSSL has no random bytes: the machine is at fault.
    package static func newKey() throws(StoreError) -> Secret {
        while true {
            let key = try randomKey()
            if SecretText.finding(in: key, as: .bytes) == nil { return key }
        }
    }

    private static func randomKey() throws(StoreError) -> Secret {
        try Secret(capacity: StoreText.fingerprintKeyByteCount) { room throws(StoreError) in
            guard AESSealing.random(room) else {
                throw StoreError(
                    .unfit, message: "OpenSSL provides no random bytes; repair the library or the kernel's generator")
            }
            return room.count
        }
    }

    /// Retries for a lock that other processes hold briefly. There is no queue yet on which to wait.
    private static func retryingWhileBusy<Value>(_ call: () throws(StoreError) -> Value) throws(StoreError) -> Value {
        let end = Instant.now + StoreLockRetry.timeout
        while true {
            do throws(StoreError) {
                return try call()
            } catch {
                guard error.kind == .busy, Instant.now < end else { throw error }
                usleep(UInt32(StoreLockRetry.delay.nanoseconds / 1000))
            }
        }
    }
}
