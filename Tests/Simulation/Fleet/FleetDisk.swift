import Glibc
import LanyardVault

/// One folder of a simulated machine: what was not synchronized can be lost when the power goes, files and names alike.
///
/// Synchronous, as real file calls are. Calls of processes come through `FleetDiskGate`s.
package final class FleetDisk {
    /// Makes the disk worse than any disk: for planted bugs.
    package struct Tricks {
        package var skipsFileSync = false
        package var skipsFolderSync = false
        package var grantsEveryLock = false
        package init() {}
    }

    /// A file, whatever its name.
    final class File {
        var bytes: [UInt8] = []
        /// What a loss of power leaves for certain; nil: nothing.
        var durable: [UInt8]?
    }

    private enum Change {
        case put(String, File)
        case move(from: String, to: String)
        case drop(String)
    }

    package var tricks = Tricks()
    /// No room for more bytes; what is there can be replaced by less.
    package var isFull = false
    package var isReadOnly = false
    /// Bytes that one write takes.
    package var writeMost = Int.max
    /// The next synchronizations of a file fail.
    package var failsToSynchronize = false
    /// No lock can be had, for a reason other than another's having it.
    package var refusesLocks = false
    /// Grows with each change of what a name leads to.
    package private(set) var version: UInt64 = 0
    /// Grows with each change of what a loss of power would leave.
    package private(set) var durableVersion: UInt64 = 0

    private var names: [String: File] = [:]
    private var durableNames: [String: File] = [:]
    private var pending: [Change] = []
    private var locks: [String: [Holder]] = [:]
    private var locksTaken: UInt64 = 0

    package init() {}

    // MARK: Calls

    func create(_ name: String) throws(DiskError) -> File {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard names[name] == nil else { throw DiskError(EEXIST, "simulating") }
        guard !isFull else { throw DiskError(ENOSPC, "simulating") }
        let file = File()
        change(.put(name, file))
        return file
    }

    /// The file of that name and length, to add bytes to it.
    func extend(_ name: String, from offset: Int) throws(DiskError) -> File {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard let file = names[name], file.bytes.count == offset else { throw DiskError(EINVAL, "simulating") }
        return file
    }

    /// Removes what is behind so many bytes, durably.
    func cut(_ name: String, to byteCount: Int) throws(DiskError) {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard !failsToSynchronize else { throw DiskError(EIO, "simulating") }
        guard let file = names[name], file.bytes.count >= byteCount else { throw DiskError(EINVAL, "simulating") }
        file.bytes.removeLast(file.bytes.count - byteCount)
        file.durable = file.bytes
        version += 1
        durableVersion += 1
    }

    /// What any process has written to the file of that name.
    func synchronize(_ name: String) throws(DiskError) {
        guard let file = names[name] else { throw DiskError(ENOENT, "simulating") }
        try synchronize(file)
    }

    /// Appends as much as there is room for.
    func write(_ bytes: UnsafeRawBufferPointer, to file: File) throws(DiskError) -> Int {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard !isFull else { throw DiskError(ENOSPC, "simulating") }
        file.bytes.append(contentsOf: bytes.prefix(writeMost))
        version += 1
        return min(bytes.count, writeMost)
    }

    /// Replaces bytes of a file in place, durably. A full disk has the room.
    func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard !failsToSynchronize else { throw DiskError(EIO, "simulating") }
        guard let file = names[name], offset + bytes.count <= file.bytes.count else {
            throw DiskError(ENOENT, "simulating")
        }
        file.bytes.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        file.durable?.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        version += 1
        durableVersion += 1
    }

    func synchronize(_ file: File) throws(DiskError) {
        guard !failsToSynchronize else { throw DiskError(EIO, "simulating") }
        guard !tricks.skipsFileSync else { return }
        file.durable = file.bytes
        durableVersion += 1
    }

    func synchronizeFolder() throws(DiskError) {
        guard !failsToSynchronize else { throw DiskError(EIO, "simulating") }
        guard !tricks.skipsFolderSync else { return }
        makePendingDurable(pending.count)
    }

    func rename(_ from: String, to: String) throws(DiskError) {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard names[from] != nil else { throw DiskError(ENOENT, "simulating") }
        change(.move(from: from, to: to))
    }

    func unlink(_ name: String) throws(DiskError) {
        guard !isReadOnly else { throw DiskError(EROFS, "simulating") }
        guard names[name] != nil else { return }
        change(.drop(name))
    }

    package func content(of name: String) -> [UInt8]? { names[name]?.bytes }

    /// What a loss of power at this moment could leave at worst: what is certain, without whatever is still on its way.
    package func durableContent(of name: String) -> [UInt8]? { durableNames[name]?.durable }

    package var isTroubled: Bool { isFull || isReadOnly || failsToSynchronize || writeMost != .max }

    package var nameCount: Int { names.count }

    // MARK: Locks

    struct Holder {
        var number: UInt64
        var process: Int
        var kind: DiskLockKind
    }

    /// The number of a lock that was had, nil where another excludes it.
    func take(_ name: String, _ kind: DiskLockKind, for process: Int) throws(DiskError) -> UInt64? {
        guard !refusesLocks else { throw DiskError(ENOLCK, "simulating") }
        if let holders = locks[name], !holders.isEmpty, !tricks.grantsEveryLock {
            guard kind == .shared, holders.allSatisfy({ $0.kind == .shared }) else { return nil }
        }
        locksTaken += 1
        locks[name, default: []].append(Holder(number: locksTaken, process: process, kind: kind))
        return locksTaken
    }

    func give(_ name: String, _ number: UInt64) { locks[name]?.removeAll { $0.number == number } }

    /// What the kernel does when a process ends.
    package func dropLocks(of process: Int) {
        for name in locks.keys { locks[name]?.removeAll { $0.process == process } }
    }

    /// Which process has an exclusive lock.
    package func holder(of lock: String) -> Int? { locks[lock]?.first?.process }

    // MARK: The end of power

    /// Loses what was not synchronized: names up to any point of what was in progress, and of files any part.
    ///
    /// - Returns: whether a name was lost, and whether a file was torn.
    @discardableResult
    package func losePower(_ random: inout SplitMix64) -> (undone: Bool, torn: Bool) {
        let kept = pending.isEmpty ? 0 : random.below(pending.count + 1)
        let undone = kept < pending.count
        makePendingDurable(kept)
        pending = []
        names = durableNames
        locks = [:]
        var torn = false
        for name in names.keys.sorted() {
            guard let file = names[name], file.durable != file.bytes else { continue }
            torn = true
            tear(file, &random)
        }
        version += 1
        durableVersion += 1
        return (undone, torn)
    }

    private func tear(_ file: File, _ random: inout SplitMix64) {
        let whole = file.bytes
        // What is durable stays: bytes are added behind it.
        let durable = file.durable.map { whole.starts(with: $0) ? $0.count : 0 } ?? 0
        switch random.below(4) {
        case 0: file.bytes = file.durable ?? []
        case 1: file.bytes = Array(whole.prefix(durable + random.below(whole.count - durable + 1)))
        case 2:
            // Sectors that were allocated and never written read as zeros.
            let whence = max(durable, (durable + random.below(whole.count - durable + 1)) / 512 * 512)
            file.bytes = whole.prefix(whence) + [UInt8](repeating: 0, count: whole.count - whence)
        default: break
        }
        file.durable = file.bytes
    }

    private func change(_ change: Change) {
        Self.apply(change, to: &names)
        pending.append(change)
        version += 1
    }

    private func makePendingDurable(_ count: Int) {
        for change in pending.prefix(count) { Self.apply(change, to: &durableNames) }
        pending.removeFirst(count)
        durableVersion += 1
    }

    private static func apply(_ change: Change, to names: inout [String: File]) {
        switch change {
        case .put(let name, let file): names[name] = file
        case .move(let from, let to):
            names[to] = names[from]
            names[from] = nil
        case .drop(let name): names[name] = nil
        }
    }
}
