import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The sealed file of architecture-control.md 4.7. What it holds is kept, and read on from where the latest read has ended. After a crash
/// at any moment it holds what was stored before, or that and the write.
///
/// A write is: lock, read on, change, seal; then a record at the file's end and fsync, or a new file: temporary file, fsync, rename, fsync
/// of the folder; unlock. Used by one queue at a time.
package final class StoreFile: @unchecked Sendable {
    /// Bytes of the sealed file: twice the room, and the seals.
    static let bytesMax = 2 * StoreShare.roomBytes + StoreShare.roomBytes / 2

    let path: StorePath
    let disk: any StoreDisk
    var sealing: any Sealing
    /// Random; for the empty store that a missing file stands for.
    private let newFingerprintKey: Secret
    /// Bytes of the text for all identities.
    private let roomBytes: Int
    /// The file has existed. If it is missing now, it was removed.
    var hasBeenThere = false
    /// What the file held when it was read or written last, without the marks of `PATH.used`.
    var contents: StoreContents
    /// The file of `contents`.
    var form = Form.unread
    var durability = StoreDurability()
    /// What was read at last, and whether an older file has replaced one that this process has read: what another process has stored
    /// since may be lost.
    var seen = (writes: UInt64(0), hasRolledBack: false)
    /// `PATH.used` as it was read with the latest contents, and the places in it whose tokens are stored. `entry` is what it was then, if
    /// no write since can have left its time as it was: then it is not read again.
    var marks = (file: UsedMarks(), live: Set<Int>(), entry: DiskEntry?.none)
    /// A refresh token could not be marked: the log has its line.
    var hasReportedUnmarked = false
    var logEvents: [StoreLogEvent] = []
    /// Whether the latest completed commit has written. Only that proves that writing works.
    package private(set) var hasWritten = false

    /// What kind of file it is.
    enum Form {
        /// Not read, or not to be relied on.
        case unread
        /// There is none.
        case absent
        /// Format 1: the next change replaces it.
        case whole
        case log(LogPlace)
    }

    /// - Parameters:
    ///   - fingerprintKey: 32 random bytes for a store that does not exist yet.
    ///   - roomBytes: bytes of the text for all identities.
    package init(
        _ path: StorePath, on disk: any StoreDisk, sealing: any Sealing, fingerprintKey: Secret,
        roomBytes: Int = StoreShare.roomBytes
    ) {
        self.path = path
        self.disk = disk
        self.sealing = sealing
        self.roomBytes = roomBytes
        newFingerprintKey = fingerprintKey
        contents = StoreContents(fingerprintKey: fingerprintKey)
    }

    /// Why the file's contents may not outlast a loss of power; nil: they do. A later write clears it, by this process or another.
    package var unsynced: StoreError? { durability.failure }

    /// The log events since the last call.
    package func takeLogEvents() -> [StoreLogEvent] {
        defer { logEvents = [] }
        return logEvents
    }

    // MARK: Opening

    /// Checks whether folder and file may be trusted and the file can be opened with this key. Changes nothing.
    ///
    /// - Returns: whether there is a file.
    /// - Throws: `foreignOwner`, `unsafeMode`, `notRegular`, `wrongKey`, `damaged`, `newerVersion`, `unfit` or `.system`, each with path
    ///   and remedy for the operator.
    @discardableResult
    package func inspect() throws(StoreError) -> Bool {
        let folder = try withStoreErrors { () throws(DiskError) in try disk.inspectFolder() }
        guard folder.owner == disk.owner else { throw .foreignOwner(path.folder, folder, disk.owner) }
        guard folder.mode & 0o077 == 0 else { throw .unsafeMode(path.folder, folder, wanted: "700") }
        return try load()
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
        if try load() {
            try makeDurable()
            let unwritten = try tryToWrite()
            if unwritten == nil { reserveMarks() }
            return (markedContents(), unwritten)
        }
        contents = StoreContents(fingerprintKey: newFingerprintKey)
        do throws(StoreError) {
            try write(StoreDelta())
            logEvents.append(.created)
            reserveMarks()
            return (contents, nil)
        } catch {
            guard case .system(let code) = error.kind, [ENOSPC, EDQUOT, EFBIG, EIO].contains(code) else { throw error }
            return (StoreContents(fingerprintKey: newFingerprintKey), error)
        }
    }

    // MARK: Reading and writing

    /// The store's present contents, written by any process. Needs no lock: what a write that has not ended has added counts as not there.
    ///
    /// The contents outlast a loss of power, unless `unsynced` says why not. They are returned in both cases, because a process that
    /// ignored them would send a used refresh token. Their intents have been on disk since before the calls.
    ///
    /// - Throws: what `inspect` throws about the file; `.system(ENOENT)` if the file was removed. An operator must act.
    package func read() throws(StoreError) -> StoreContents {
        try update()
        if !durability.hasFailed(logged.header) { try? makeDurable() }
        return markedContents()
    }

    /// Applies the changes in order to the file's present contents. Writes once, unless nothing has changed and all is synced. When this
    /// returns, the verdicts outlast a crash. When it throws, all or none of the changes may.
    ///
    /// - Parameter tries: replaces the file although nothing has changed, to find out whether writing works. A failure of that is no
    ///   failure of this commit.
    /// - Returns: a verdict for each change. `hasWritten` says whether the file was written.
    /// - Throws: `busy` at once while another process writes.
    package func commit(
        _ changes: [StoreChange], now: WallTime, tries: Bool = false
    ) throws(StoreError) -> [StoreChange.Verdict] {
        var verdicts: [StoreChange.Verdict] = []
        for outcome in try commitEach(changes, now: now, tries: tries) { verdicts.append(try outcome.get()) }
        return verdicts
    }

    /// The same, but a change that gives an identity more than its share fails alone, as `shareFull`: the others are stored.
    ///
    /// - Throws: as `commit` does.
    package func commitEach(
        _ changes: [StoreChange], now: WallTime, tries: Bool = false
    ) throws(StoreError) -> [Result<StoreChange.Verdict, StoreError>] {
        hasWritten = false
        let lock = try acquireLock()
        defer { lock.release() }
        try update()
        let marked = applyMarks()
        // What only a mark says is not in the sealed file yet, and leaves the contents again unless it is written.
        defer { if !hasWritten { contents.takeBack(marked) } }
        var changed = StoreDelta()
        let outcomes = changes.map { merge($0, now: now, into: &changed) }
        let isUnwritten = !marks.live.isEmpty && outcomes.contains(where: \.isOfOwnUser)
        if !changed.isEmpty || isUnwritten || durability.hasFailed(logged.header) {
            do throws(StoreError) {
                try write(marked + changed, isNewFile: changes.contains(where: \.erasesTokens))
            } catch {
                contents.takeBack(changed)
                mark(zip(changes, outcomes).filter(\.1.isOfOwnUser).map(\.0))
                throw error
            }
            hasWritten = true
        } else {
            try makeDurable()
            if tries { hasWritten = (try? write(marked, isNewFile: true)) != nil }
        }
        if hasWritten { settleMarks() }
        for (change, outcome) in zip(changes, outcomes) where outcome.isOfOwnUser { settleMark(by: change) }
        mark(zip(changes, outcomes).filter(\.1.isFailure).map(\.0))
        return outcomes
    }

    private func merge(
        _ change: StoreChange, now: WallTime, into changed: inout StoreDelta
    ) -> Result<StoreChange.Verdict, StoreError> {
        // The store cannot prove that no process has a newer token.
        if seen.hasRolledBack, let user = change.userOfLastTry { return .success(.overtaken(by: contents[user])) }
        let (verdict, delta) = contents.merge(change, now: now)
        if let identity = StoreShare.overdrawn(contents, by: delta, room: roomBytes) {
            contents.takeBack(delta)
            return .failure(.shareFull(path.path, identity))
        }
        changed += delta
        return .success(verdict)
    }

    /// Writes the same contents under another seal, by the same safe sequence. Later writes use the new seal. A file of format 1 that was
    /// kept has the former seal, and is removed.
    ///
    /// - Throws: `gone` if there is no file.
    package func reseal(with other: any Sealing) throws(StoreError) {
        let lock = try acquireLock()
        defer { lock.release() }
        try removeLeftover()
        guard try load() else { throw .gone(path.path) }
        _ = applyMarks()
        // Before the folder is synced: nothing that the former key opens is left then.
        try withStoreErrors { () throws(DiskError) in try disk.remove(path.format1) }
        let former = sealing
        (sealing, form) = (other, .unread)
        do throws(StoreError) {
            try write(StoreDelta())
        } catch {
            (sealing, form) = (former, .unread)
            throw error
        }
        settleMarks()
    }

    /// The present contents as a file of format 1, for a former release.
    ///
    /// - Throws: `gone` if there is no file; `unfit` if the contents are more than that format holds.
    package func format1() throws(StoreError) -> [UInt8] {
        let lock = try acquireLock()
        defer { lock.release() }
        guard try load() else { throw .gone(path.path) }
        let text: Secret
        do throws(StoreText.FormatError) {
            text = try StoreText.write(markedContents())
        } catch {
            throw StoreError(path.path, error)
        }
        do throws(SealingError) {
            return try text.withBytes { bytes throws(SealingError) in try sealing.seal(bytes) }
        } catch {
            throw StoreError(path.path, error)
        }
    }

    // MARK: The present contents

    private func acquireLock() throws(StoreError) -> any DiskLock {
        guard let lock = try withStoreErrors({ () throws(DiskError) in try disk.lock(path.lock, .exclusive) }) else {
            throw .busy("\(path.path).lock")
        }
        return lock
    }

    /// Brings `contents` up to date. A missing file stands for an empty store until it has existed.
    private func update() throws(StoreError) {
        guard try !load() else { return }
        guard !hasBeenThere else { throw .gone(path.path) }
        contents = StoreContents(fingerprintKey: newFingerprintKey)
    }

    /// Brings `contents`, `form` and `marks` up to date.
    ///
    /// - Returns: false: there is no file.
    private func load() throws(StoreError) -> Bool {
        // Before the sealed file: a process that settles a mark writes that file first.
        readMarks()
        guard let found = try readFile(from: form) else {
            form = .absent
            return false
        }
        do throws(StoreError) {
            try take(found)
        } catch {
            form = .unread
            throw error
        }
        findLiveMarks()
        hasBeenThere = true
        if contents.writes < seen.writes {
            logEvents.append(.rolledBack(from: seen.writes, to: contents.writes))
            seen.hasRolledBack = true
        }
        seen.writes = contents.writes
        return true
    }

    private func take(_ found: DiskContent) throws(StoreError) {
        let bytes = try checkedBytes(found)
        if found.offset > 0, case .log(var place) = form {
            form = .unread
            if try place.readOn(bytes, &contents, path.path) { return form = .log(place) }
            guard let again = try readFile(from: .unread) else { throw .gone(path.path) }
            return try take(again)
        }
        let place: LogPlace?
        (contents, place) = try Self.contents(of: bytes, sealing, path.path)
        form = place.map { .log($0) } ?? .whole
    }

    /// What a whole file of either format holds.
    ///
    /// - Returns: the contents, and how far a file of format 2 was read.
    /// - Throws: as `inspect` does of the bytes.
    static func contents(
        of bytes: [UInt8], _ sealing: any Sealing, _ path: String
    ) throws(StoreError) -> (StoreContents, LogPlace?) {
        guard bytes.withUnsafeBytes({ LogHeader.begins($0) }) else { return (try unsealed(bytes, sealing, path), nil) }
        return try LogPlace.read(bytes, sealing, path)
    }

    /// The same of a copy of the file, without the marks.
    ///
    /// - Throws: as `inspect` does of the bytes.
    package static func contents(of copy: [UInt8], sealing: any Sealing) throws(StoreError) -> StoreContents {
        try contents(of: copy, sealing, "a copy").0
    }

    /// The file, or what stands behind what `form` has of it, with the tag before that.
    private func readFile(from form: Form) throws(StoreError) -> DiskContent? {
        try withStoreErrors { () throws(DiskError) in
            try disk.read(path.name, bytesMax: Self.bytesMax, headByteCount: LogHeader.byteCount) { entry, head in
                guard case .log(let place) = form, place.isOf(head), entry.size >= place.log.end else { return 0 }
                return place.log.end - SealHeader.tagByteCount
            }
        }
    }

    private func checkedBytes(_ found: DiskContent) throws(StoreError) -> [UInt8] {
        let entry = found.entry
        guard entry.kind == .file else { throw .notRegular(path.path, entry) }
        guard entry.owner == disk.owner else { throw .foreignOwner(path.path, entry, disk.owner) }
        guard entry.mode & 0o077 == 0 else { throw .unsafeMode(path.path, entry, wanted: "600") }
        if let code = found.openError { throw StoreError(path, DiskError(code, "opening"), owner: disk.owner) }
        guard let bytes = found.bytes else { throw .damaged(path.path, "it is larger than any store") }
        return bytes
    }

    /// The contents of a file of format 1.
    private static func unsealed(
        _ bytes: [UInt8], _ sealing: any Sealing, _ path: String
    ) throws(StoreError) -> StoreContents {
        let text: Secret
        do throws(SealingError) {
            text = try bytes.withUnsafeBytes { sealed in
                Result { () throws(SealingError) in try sealing.open(sealed) }
            }.get()
        } catch {
            throw StoreError(path, error)
        }
        do throws(StoreText.FormatError) {
            return try text.withBytes { bytes throws(StoreText.FormatError) in try StoreText.read(bytes) }
        } catch {
            throw StoreError(path, error)
        }
    }

    func withStoreErrors<Value>(_ call: () throws(DiskError) -> Value) throws(StoreError) -> Value {
        do throws(DiskError) {
            return try call()
        } catch {
            throw StoreError(path, error, owner: disk.owner)
        }
    }
}

extension StoreChange {
    /// The user whose refresh token is about to be sent once more after an unknown outcome; nil: the change is another one.
    fileprivate var userOfLastTry: String? {
        if case .storeIntent(let user, _, _, _, _, _, isLastTry: true) = self { user } else { nil }
    }
}

extension Result<StoreChange.Verdict, StoreError> {
    /// The change is more than its identity's share.
    fileprivate var isFailure: Bool { if case .failure = self { true } else { false } }

    /// The change was to be stored: no other process has changed its user.
    fileprivate var isOfOwnUser: Bool {
        switch self {
        case .success(.stored), .success(.storedEnding), .failure: true
        case .success(.overtaken), .success(.inUse): false
        }
    }
}
