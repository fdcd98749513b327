import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The sealed file of architecture.md 4.7. It is read as a whole and replaced as a whole. After a crash at any moment it is the old file or
/// the new one.
///
/// A write is: lock, read, change, seal, temporary file, fsync, rename, fsync of the folder, unlock. Used by one queue at a time.
package final class StoreFile: @unchecked Sendable {
    /// Bytes of the sealed file.
    static let bytesMax = StoreText.bytesMax + 1024

    let path: StorePath
    let disk: any StoreDisk
    private var sealing: any Sealing
    /// Random; for the empty store that a missing file stands for.
    private let newFingerprintKey: Secret
    /// The file has existed. If it is missing now, it was removed.
    private var hasBeenThere = false
    /// The `writes` that are known to outlast a loss of power: another process may have died between its rename and its fsync.
    private var durable: UInt64?
    /// The `writes` that could not be synced. Another fsync would prove nothing for these: the kernel reports a loss once and then treats
    /// the lost data as written (fsync(2)).
    private var failedSync: (writes: UInt64, error: StoreError)?
    private var highestWrites: UInt64 = 0
    private var logEvents: [StoreLogEvent] = []
    /// Whether the latest completed commit has replaced the file. Only that proves that writing works.
    package private(set) var hasWritten = false

    /// - Parameter fingerprintKey: 32 random bytes for a store that does not exist yet.
    package init(_ path: StorePath, on disk: any StoreDisk, sealing: any Sealing, fingerprintKey: Secret) {
        self.path = path
        self.disk = disk
        self.sealing = sealing
        newFingerprintKey = fingerprintKey
    }

    /// Why the file's contents may not outlast a loss of power; nil: they do. A later write clears it, by this process or another.
    package var unsynced: StoreError? { failedSync?.error }

    /// The log events since the last call.
    package func takeLogEvents() -> [StoreLogEvent] {
        defer { logEvents = [] }
        return logEvents
    }

    // MARK: Opening

    /// Checks whether folder and file may be trusted and the file can be opened with this key. Changes nothing.
    ///
    /// - Returns: whether there is a file.
    @discardableResult
    package func inspect() throws(StoreError) -> Bool {
        let folder = try withStoreErrors { () throws(DiskError) in try disk.inspectFolder() }
        guard folder.owner == disk.owner else { throw .foreignOwner(path.folder, folder, disk.owner) }
        guard folder.mode & 0o077 == 0 else { throw .unsafeMode(path.folder, folder, wanted: "700") }
        return try load() != nil
    }

    /// Takes `PATH.open`: `shared` to use the store, `exclusive` to change its key.
    ///
    /// - Throws: `busy` at once.
    package func lockOpenFile(_ kind: DiskLockKind) throws(StoreError) -> any DiskLock {
        guard let openFileLock = try withStoreErrors({ () throws(DiskError) in try disk.lock(path.open, kind) }) else {
            throw .busy("\(path.path).open")
        }
        return openFileLock
    }

    /// Removes a crash's leftover, creates the store if there is none, and finds out whether an existing one can be written.
    ///
    /// - Returns: the contents, and why they cannot be written now. Such a reason may pass: no room, or a disk error. An empty store that
    ///   could not be created is kept in memory until then.
    /// - Throws: `busy` while another process writes; any condition that prevents this process from ever writing there.
    package func begin() throws(StoreError) -> (contents: StoreContents, unwritten: StoreError?) {
        let lock = try acquireLock()
        defer { lock.release() }
        try removeLeftover()
        if let contents = try load() {
            try makeDurable(contents)
            return (contents, try tryToWrite())
        }
        var contents = StoreContents(fingerprintKey: newFingerprintKey)
        do throws(StoreError) {
            try replace(with: &contents)
            logEvents.append(.created)
            return (contents, nil)
        } catch {
            guard case .system(let code) = error.kind, [ENOSPC, EDQUOT, EFBIG, EIO].contains(code) else { throw error }
            return (StoreContents(fingerprintKey: newFingerprintKey), error)
        }
    }

    // MARK: Reading and writing

    /// The store's present contents, written by any process. Needs no lock: the file is only ever replaced as a whole.
    ///
    /// The contents outlast a loss of power, unless `unsynced` says why not. They are returned in both cases, because a process that
    /// ignored them would send a used refresh token. Their intents have been on disk since before the calls.
    package func read() throws(StoreError) -> StoreContents {
        let contents = try current()
        if failedSync?.writes != contents.writes { try? makeDurable(contents) }
        return contents
    }

    /// Applies the changes in order to the file's present contents. Writes once, unless nothing has changed and all is synced. When this
    /// returns, the verdicts outlast a crash. When it throws, all or none of the changes may.
    ///
    /// - Parameter tries: replaces the file although nothing has changed, to find out whether writing works. A failure of that is no
    ///   failure of this commit.
    /// - Returns: a verdict for each change. `hasWritten` says whether the file was replaced.
    /// - Throws: `busy` at once while another process writes.
    package func commit(
        _ changes: [StoreChange], now: WallTime, tries: Bool = false
    ) throws(StoreError) -> [StoreChange.Verdict] {
        var verdicts: [StoreChange.Verdict] = []
        for outcome in try commitEach(changes, now: now, tries: tries) { verdicts.append(try outcome.get()) }
        return verdicts
    }

    /// The same, but a change that gives an identity more than its share fails alone, as `shareFull`: the others are stored.
    package func commitEach(
        _ changes: [StoreChange], now: WallTime, tries: Bool = false
    ) throws(StoreError) -> [Result<StoreChange.Verdict, StoreError>] {
        hasWritten = false
        let lock = try acquireLock()
        defer { lock.release() }
        var contents = try current()
        let before = contents
        let outcomes = changes.map { change -> Result<StoreChange.Verdict, StoreError> in
            let former = contents
            let verdict = contents.apply(change, now: now)
            guard let identity = StoreShare.overdrawn(contents, since: former) else { return .success(verdict) }
            contents = former
            return .failure(.shareFull(path.path, identity))
        }
        if contents != before || failedSync?.writes == contents.writes {
            try replace(with: &contents)
            hasWritten = true
        } else {
            try makeDurable(contents)
            if tries { hasWritten = (try? replace(with: &contents)) != nil }
        }
        return outcomes
    }

    /// Writes the same contents under another seal, by the same safe sequence. Later writes use the new seal.
    ///
    /// - Throws: `gone` if there is no file.
    package func reseal(with other: any Sealing) throws(StoreError) {
        let lock = try acquireLock()
        defer { lock.release() }
        try removeLeftover()
        guard var contents = try load() else { throw .gone(path.path) }
        let former = sealing
        sealing = other
        do throws(StoreError) {
            try replace(with: &contents)
        } catch {
            sealing = former
            throw error
        }
    }

    // MARK: Steps

    private func acquireLock() throws(StoreError) -> any DiskLock {
        guard let lock = try withStoreErrors({ () throws(DiskError) in try disk.lock(path.lock, .exclusive) }) else {
            throw .busy("\(path.path).lock")
        }
        return lock
    }

    private func current() throws(StoreError) -> StoreContents {
        if let contents = try load() { return contents }
        guard !hasBeenThere else { throw .gone(path.path) }
        return StoreContents(fingerprintKey: newFingerprintKey)
    }

    /// nil: there is no file.
    private func load() throws(StoreError) -> StoreContents? {
        let found = try withStoreErrors { () throws(DiskError) in try disk.read(path.name, bytesMax: Self.bytesMax) }
        guard let found else { return nil }
        let entry = found.entry
        guard entry.kind == .file else { throw .notRegular(path.path, entry) }
        guard entry.owner == disk.owner else { throw .foreignOwner(path.path, entry, disk.owner) }
        guard entry.mode & 0o077 == 0 else { throw .unsafeMode(path.path, entry, wanted: "600") }
        if let code = found.openError { throw StoreError(path, DiskError(code, "opening"), owner: disk.owner) }
        guard let bytes = found.bytes else { throw .damaged(path.path, "it is larger than any store") }
        let contents = try unsealed(bytes)
        hasBeenThere = true
        if contents.writes < highestWrites { logEvents.append(.rolledBack(from: highestWrites, to: contents.writes)) }
        highestWrites = contents.writes
        return contents
    }

    private func unsealed(_ bytes: [UInt8]) throws(StoreError) -> StoreContents {
        let text: Secret
        do throws(SealingError) {
            text = try bytes.withUnsafeBytes { sealed in
                Result { () throws(SealingError) in try sealing.open(sealed) }
            }.get()
        } catch {
            throw StoreError(path.path, error)
        }
        do throws(StoreText.FormatError) {
            return try text.withBytes { bytes throws(StoreText.FormatError) in try StoreText.read(bytes) }
        } catch {
            throw StoreError(path.path, error)
        }
    }

    /// Under the lock. A failure before the rename leaves the file unchanged.
    private func replace(with contents: inout StoreContents) throws(StoreError) {
        contents.writes = contents.writes.clampedSum(1)
        let sealed = try sealed(contents)
        try withStoreErrors { () throws(DiskError) in
            try disk.remove(path.temporary)
            do throws(DiskError) {
                try writeTemporary(sealed)
                try disk.rename(path.temporary, to: path.name)
            } catch {
                // Frees the room for another attempt.
                try? disk.remove(path.temporary)
                throw error
            }
        }
        hasBeenThere = true
        highestWrites = contents.writes
        try syncFolder(contents.writes)
    }

    private func sealed(_ contents: StoreContents) throws(StoreError) -> [UInt8] {
        let text: Secret
        do throws(StoreText.FormatError) {
            text = try StoreText.write(contents)
        } catch {
            throw StoreError(path.path, error)
        }
        do throws(SealingError) {
            return try text.withBytes { bytes throws(SealingError) in try sealing.seal(bytes) }
        } catch {
            throw StoreError(path.path, error)
        }
    }

    private func writeTemporary(_ bytes: [UInt8]) throws(DiskError) {
        let draft = try disk.create(path.temporary)
        try bytes.withUnsafeBytes { all in
            Result { () throws(DiskError) in
                var rest = all
                while !rest.isEmpty {
                    rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(try draft.write(rest)))
                }
            }
        }.get()
        try draft.sync()
    }

    private func removeLeftover() throws(StoreError) {
        let found = try withStoreErrors { () throws(DiskError) in try disk.read(path.temporary, bytesMax: 0) }
        guard found != nil else { return }
        try withStoreErrors { () throws(DiskError) in try disk.remove(path.temporary) }
        logEvents.append(.leftoverRemoved)
    }

    /// Creates and removes a temporary file. Only this shows that the folder cannot be written.
    ///
    /// - Returns: why it failed, if the reason may pass.
    /// - Throws: missing permissions. An operator must grant them, and should learn that before the first session is lost.
    private func tryToWrite() throws(StoreError) -> StoreError? {
        do throws(StoreError) {
            try withStoreErrors { () throws(DiskError) in
                _ = try disk.create(path.temporary)
                try disk.remove(path.temporary)
            }
            return nil
        } catch {
            guard case .system(let code) = error.kind, ![EACCES, EPERM, EROFS].contains(code) else { throw error }
            return error
        }
    }

    /// The process that wrote the file may have died before the folder was synced.
    private func makeDurable(_ contents: StoreContents) throws(StoreError) {
        guard durable != contents.writes, hasBeenThere else { return }
        try syncFolder(contents.writes)
    }

    private func syncFolder(_ writes: UInt64) throws(StoreError) {
        do throws(StoreError) {
            try withStoreErrors { () throws(DiskError) in try disk.syncFolder() }
            (durable, failedSync) = (writes, nil)
        } catch {
            failedSync = (writes, error)
            throw error
        }
    }

    private func withStoreErrors<Value>(_ call: () throws(DiskError) -> Value) throws(StoreError) -> Value {
        do throws(DiskError) {
            return try call()
        } catch {
            throw StoreError(path, error, owner: disk.owner)
        }
    }
}
