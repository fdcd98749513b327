import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Which writes outlast a loss of power.
struct StoreDurability {
    /// The `writes` that are known to: another process may have died between its write and its fsync.
    private var durable: UInt64?
    /// The header of the file whose name is known to.
    private var named: [UInt8]?
    /// The file that could not be synced, by its header. Another fsync of it would prove nothing: the kernel reports a loss once and then
    /// treats the lost data as written (fsync(2)). Only a new file does.
    private var failed: (header: [UInt8]?, error: StoreError)?

    /// Why what was written or read last may not outlast a loss of power.
    var failure: StoreError? { failed?.error }

    /// - Parameter header: of the present file; nil: a file of format 1.
    func hasFailed(_ header: [UInt8]?) -> Bool { failed.map { $0.header == header } ?? false }

    func covers(_ writes: UInt64) -> Bool { durable == writes }

    /// nil: a file of format 1.
    func coversName(of header: [UInt8]?) -> Bool { header != nil && named == header }

    mutating func succeed(_ writes: UInt64, _ header: [UInt8]?, isNewFile: Bool) {
        guard isNewFile || !hasFailed(header) else { return }
        (durable, named, failed) = (writes, header, nil)
    }

    mutating func fail(_ header: [UInt8]?, _ error: StoreError) { (durable, failed) = (nil, (header, error)) }
}

/// How the file is written: a record at its end, or a new file. All is done under the lock.
extension StoreFile {
    /// Writes what `delta` has made of the contents.
    ///
    /// - Parameter isNewFile: nothing that was in the file before stays on the disk.
    /// - Throws: what an operator must do. The contents are as before but for `delta`, which the file may hold or not.
    func write(_ delta: StoreDelta, isNewFile: Bool = false) throws(StoreError) {
        let former = contents.writes
        // A record must not stand behind one that a loss of power may still take away.
        let isSure = isNewFile || logged.header == nil || (try? makeDurable()) != nil
        contents.writes = former.clampedSum(1)
        do throws(StoreError) {
            try writeNow(delta, isNewFile: isNewFile || !isSure || durability.hasFailed(logged.header))
        } catch {
            contents.writes = former
            throw error
        }
        seen.writes = contents.writes
    }

    private func writeNow(_ delta: StoreDelta, isNewFile: Bool) throws(StoreError) {
        guard case .log(let place) = form else { return try replace() }
        do throws(StoreError) {
            if !isNewFile, try append(delta, at: place) { return }
        } catch {
            // What is in the file now may be lost, and a later fsync would not tell.
            guard durability.hasFailed(place.log.seal.header) else { throw error }
        }
        do throws(StoreError) {
            try replace()
        } catch {
            // There may be room for a record where there is none for a new file, which the next write tries again.
            let lacksRoom = error.kind == .system(ENOSPC) || error.kind == .system(EDQUOT)
            guard lacksRoom, !durability.hasFailed(place.log.seal.header), case .log = form,
                try append(delta, at: place, isLate: true)
            else { throw error }
        }
    }

    /// - Parameter isLate: a new file is due, and there is no room for it.
    /// - Returns: false: the file has grown so much that a new one is due.
    private func append(_ delta: StoreDelta, at place: LogPlace, isLate: Bool = false) throws(StoreError) -> Bool {
        var next = place
        let record = try next.append(delta, path.path)
        guard isLate ? next.log.end < Self.bytesMax : !next.isLong else { return false }
        next.isDue = isLate
        let end = place.log.end
        let writer = try withStoreErrors { () throws(DiskError) in
            // What a write that did not end has left must not be mixed with this one after a loss of power.
            if place.isTorn { try disk.cut(path.name, to: end) }
            let writer = try disk.extend(path.name, from: end)
            do throws(DiskError) {
                try writer.write(all: record)
            } catch {
                // Frees the room for another attempt.
                try? disk.cut(path.name, to: end)
                throw error
            }
            return writer
        }
        let header = next.log.seal.header
        try sync(isNewName: !durability.coversName(of: header), header) { () throws(DiskError) in try writer.sync() }
        form = .log(next)
        return true
    }

    /// A failure before the rename leaves the file unchanged.
    private func replace() throws(StoreError) {
        let isConverting = if case .whole = form { true } else { false }
        if isConverting { try keepFormat1() }
        let (bytes, place) = try LogPlace.file(of: contents, sealing, path.path)
        try withStoreErrors { () throws(DiskError) in try put(bytes, as: path.name) }
        if isConverting { logEvents.append(.converted) }
        hasBeenThere = true
        form = .unread
        try sync(isNewName: true, isNewFile: true, place.log.seal.header) { () throws(DiskError) in }
        form = .log(place)
    }

    /// The release before this one can still read what it has written. What has changed since is not in it.
    private func keepFormat1() throws(StoreError) {
        try withStoreErrors { () throws(DiskError) in
            guard let bytes = try disk.read(path.name, bytesMax: Self.bytesMax)?.bytes else { return }
            try put(bytes, as: path.format1)
        }
    }

    /// Makes a file of these bytes, or replaces it, in one step.
    func put(_ bytes: [UInt8], as name: String) throws(DiskError) {
        try disk.remove(path.temporary)
        do throws(DiskError) {
            let draft = try disk.create(path.temporary)
            try draft.write(all: bytes)
            try draft.sync()
            try disk.rename(path.temporary, to: name)
        } catch {
            // Frees the room for another attempt.
            try? disk.remove(path.temporary)
            throw error
        }
    }

    func removeLeftover() throws(StoreError) {
        let found = try withStoreErrors { () throws(DiskError) in try disk.read(path.temporary, bytesMax: 0) }
        guard found != nil else { return }
        try withStoreErrors { () throws(DiskError) in try disk.remove(path.temporary) }
        logEvents.append(.leftoverRemoved)
    }

    /// Creates and removes a temporary file. Only this shows that the folder cannot be written.
    ///
    /// - Returns: why it failed, if the reason may pass.
    /// - Throws: missing permissions. An operator must grant them, and should learn that before the first session is lost.
    func tryToWrite() throws(StoreError) -> StoreError? {
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

    // MARK: Durability

    /// The process that wrote what was read may have died before it was synced.
    func makeDurable() throws(StoreError) {
        guard hasBeenThere, !durability.covers(contents.writes) else { return }
        let (header, hasWrites) = logged
        try sync(isNewName: !durability.coversName(of: header), header) { () throws(DiskError) in
            // A new file is synced before it has its name.
            if hasWrites { try disk.syncFile(path.name) }
        }
    }

    /// The header of a file of format 2, and whether records were added to it since it was made.
    var logged: (header: [UInt8]?, hasWrites: Bool) {
        if case .log(let place) = form { (place.log.seal.header, place.hasWrites) } else { (nil, false) }
    }

    /// - Parameter header: of the file that holds the contents; nil: of format 1.
    private func sync(
        isNewName: Bool, isNewFile: Bool = false, _ header: [UInt8]?, _ file: () throws(DiskError) -> Void
    ) throws(StoreError) {
        do throws(StoreError) {
            try withStoreErrors { () throws(DiskError) in
                try file()
                if isNewName { try disk.syncFolder() }
            }
            durability.succeed(contents.writes, header, isNewFile: isNewFile)
        } catch {
            durability.fail(header, error)
            throw error
        }
    }
}
