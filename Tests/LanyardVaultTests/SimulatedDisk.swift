import Glibc
import LanyardFoundations
import LanyardVault

/// The store's folder on a machine that can lose power. Changes that were not synced are then lost, or kept in part at random.
///
/// Each process on the machine calls it by a value of its own (`process`). Any of these calls can fail, be cut short or end the process.
final class SimulatedDisk: Sendable {
    /// A file call.
    enum Step: String, CaseIterable, Sendable {
        case inspectFolder, read, create, extend, write, sync, cut, syncFile, rename, syncFolder, overwrite, remove,
            lock, unlock
    }

    /// The outcome of a call.
    enum Outcome: Equatable, Sendable {
        case done
        /// The call fails with this `errno` and has no effect.
        case fails(CInt)
        /// A write takes this many bytes only, at least one.
        case short(Int)
        /// The process ends before the call has an effect.
        case diesBefore
        /// The process ends after the call has had its effect.
        case diesAfter
    }

    struct Inode {
        var bytes: [UInt8] = []
        /// The content that certainly survives a loss of power.
        var synced: [UInt8] = []
    }

    /// A change of the folder.
    private enum Change {
        case link(String, Int)
        case unlink(String)
        case rename(String, String)
    }

    private struct Lock {
        var process: Int
        var handle: Int
        var isExclusive: Bool
    }

    private struct Machine {
        var room: Int
        var inodes: [Int: Inode] = [:]
        var names: [String: Int] = [:]
        var syncedNames: [String: Int] = [:]
        /// Since the folder was synced.
        var changes: [Change] = []
        var locks: [String: [Lock]] = [:]
        var dead: Set<Int> = []
        /// Processes up to this number died with the machine.
        var deadThrough = 0
        var last = 0

        mutating func number() -> Int {
            last += 1
            return last
        }

        mutating func make(_ change: Change) {
            changes.append(change)
            Self.apply(change, to: &names)
        }

        static func apply(_ change: Change, to names: inout [String: Int]) {
            switch change {
            case .link(let name, let inode): names[name] = inode
            case .unlink(let name): names[name] = nil
            case .rename(let name, let other): if let inode = names.removeValue(forKey: name) { names[other] = inode }
            }
        }

        /// Removes files that have no name, now or after a loss of power.
        mutating func tidy() {
            guard inodes.count > 64 else { return }
            var used = Set(names.values).union(syncedNames.values)
            for case .link(_, let inode) in changes { used.insert(inode) }
            inodes = inodes.filter { used.contains($0.key) }
        }

        var used: Int { Set(names.values).reduce(0) { $0 + (inodes[$1]?.bytes.count ?? 0) } }
    }

    private let machine: Guarded<Machine>

    /// - Parameter room: bytes of all files together.
    init(room: Int = .max) { machine = Guarded(Machine(room: room)) }

    /// A process on this machine.
    ///
    /// - Parameter outcome: called before each call, with the call's number in this process, from 0.
    func process(
        outcome: @escaping @Sendable (Step, _ name: String, _ number: Int) -> Outcome = { _, _, _ in .done }
    ) -> SimulatedProcess {
        SimulatedProcess(on: self, number: machine.withLock { $0.number() }, outcome: outcome)
    }

    // MARK: The machine

    /// All processes die, and all changes that were not synced are lost.
    func losePower() {
        losePower(keepingChanges: 0) { $0.synced }
    }

    /// All processes die. A random part of the changes that were not synced stays: the folder's changes up to some point, and torn files.
    func losePower(using generator: inout some RandomNumberGenerator) {
        let kept = Int.random(in: 0...machine.withLock { $0.changes.count }, using: &generator)
        losePower(keepingChanges: kept) { inode in
            guard inode.bytes != inode.synced else { return inode.synced }
            // What is synced stays: bytes are added behind it.
            let synced = inode.bytes.starts(with: inode.synced) ? inode.synced.count : 0
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: return inode.synced
            case 1: return inode.bytes
            case 2: return Array(inode.bytes.prefix(.random(in: synced...inode.bytes.count, using: &generator)))
            case 3:
                // The length has reached the disk, but not all blocks have.
                let random = Int.random(in: synced...inode.bytes.count, using: &generator)
                let kept = max(synced, random / 512 * 512)
                return inode.bytes.prefix(kept) + [UInt8](repeating: 0, count: inode.bytes.count - kept)
            default:
                // Of the sectors some have reached the disk, in no order.
                var bytes = inode.bytes
                for sector in stride(from: 0, to: bytes.count, by: 512) where Bool.random(using: &generator) {
                    for place in max(synced, sector)..<max(synced, min(sector + 512, bytes.count)) { bytes[place] = 0 }
                }
                return bytes
            }
        }
    }

    private func losePower(keepingChanges kept: Int, _ remains: (Inode) -> [UInt8]) {
        machine.withLock { machine in
            machine.deadThrough = machine.last
            machine.dead = []
            machine.locks = [:]
            var names = machine.syncedNames
            for change in machine.changes.prefix(kept) { Machine.apply(change, to: &names) }
            let used = Set(names.values)
            machine.inodes = machine.inodes.filter { used.contains($0.key) }.mapValues { inode in
                let bytes = remains(inode)
                return Inode(bytes: bytes, synced: bytes)
            }
            (machine.names, machine.syncedNames, machine.changes) = (names, names, [])
        }
    }

    func setRoom(_ room: Int) { machine.withLock { $0.room = room } }

    /// A file's bytes as processes see them; nil: there is none.
    func bytes(of name: String) -> [UInt8]? {
        machine.withLock { machine in machine.names[name].flatMap { machine.inodes[$0]?.bytes } }
    }

    /// Creates a synced file.
    func put(_ name: String, _ bytes: [UInt8]) {
        machine.withLock { machine in
            let inode = machine.number()
            machine.inodes[inode] = Inode(bytes: bytes, synced: bytes)
            machine.names[name] = inode
            machine.syncedNames[name] = inode
        }
    }

    /// Names of all files except locks and marks of used tokens.
    var files: [String] {
        machine.withLock { machine in
            machine.names.keys.filter { name in ![".lock", ".open", ".used"].contains(where: name.hasSuffix) }.sorted()
        }
    }

    // MARK: Calls of a process

    func kill(_ process: Int) {
        machine.withLock { machine in
            machine.dead.insert(process)
            for name in machine.locks.keys { machine.locks[name]?.removeAll { $0.process == process } }
        }
    }

    func isDead(_ process: Int) -> Bool { machine.withLock { $0.deadThrough >= process || $0.dead.contains(process) } }

    func create(_ name: String) throws(DiskError) -> Int {
        let inode: Int? = machine.withLock { machine in
            guard machine.names[name] == nil else { return nil }
            let inode = machine.number()
            machine.inodes[inode] = Inode()
            machine.make(.link(name, inode))
            return inode
        }
        guard let inode else { throw DiskError(EEXIST, "creating a temporary file") }
        return inode
    }

    /// The file of that name and length.
    func extend(_ name: String, from offset: Int) throws(DiskError) -> Int {
        let inode: Int? = machine.withLock { machine in
            guard let inode = machine.names[name], machine.inodes[inode]?.bytes.count == offset else { return nil }
            return inode
        }
        guard let inode else { throw DiskError(EINVAL, "adding") }
        return inode
    }

    func cut(_ name: String, to byteCount: Int) throws(DiskError) {
        let isDone = machine.withLock { machine in
            guard let inode = machine.names[name], let bytes = machine.inodes[inode]?.bytes, bytes.count >= byteCount
            else { return false }
            let rest = Array(bytes.prefix(byteCount))
            machine.inodes[inode] = Inode(bytes: rest, synced: rest)
            return true
        }
        guard isDone else { throw DiskError(EINVAL, "cutting") }
    }

    func syncFile(_ name: String) throws(DiskError) {
        guard let inode = machine.withLock({ $0.names[name] }) else { throw DiskError(ENOENT, "syncing") }
        sync(inode)
    }

    func write(_ bytes: UnsafeRawBufferPointer, max: Int, to inode: Int) throws(DiskError) -> Int {
        let count = machine.withLock { machine in
            let count = min(bytes.count, max, machine.room - machine.used)
            if count > 0 { machine.inodes[inode]?.bytes += bytes.prefix(count) }
            return count
        }
        guard count > 0 else { throw DiskError(ENOSPC, "writing") }
        return count
    }

    func sync(_ inode: Int) {
        machine.withLock { machine in
            if let bytes = machine.inodes[inode]?.bytes { machine.inodes[inode]?.synced = bytes }
        }
    }

    /// Needs no room. The bytes lie in one sector: they reach the disk as a whole.
    func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) {
        let isDone = machine.withLock { machine in
            guard let inode = machine.names[name], var file = machine.inodes[inode],
                offset + bytes.count <= file.bytes.count
            else { return false }
            file.bytes.replaceSubrange(offset..<offset + bytes.count, with: bytes)
            if file.synced.count == file.bytes.count {
                file.synced.replaceSubrange(offset..<offset + bytes.count, with: bytes)
            } else {
                file.synced = file.bytes
            }
            machine.inodes[inode] = file
            return true
        }
        guard isDone else { throw DiskError(ENOENT, "overwriting") }
    }

    func rename(_ name: String, to other: String) throws(DiskError) {
        let isThere = machine.withLock { machine in
            guard machine.names[name] != nil else { return false }
            machine.make(.rename(name, other))
            machine.tidy()
            return true
        }
        guard isThere else { throw DiskError(ENOENT, "renaming") }
    }

    func remove(_ name: String) {
        machine.withLock { machine in
            guard machine.names[name] != nil else { return }
            machine.make(.unlink(name))
            machine.tidy()
        }
    }

    func syncFolder() {
        machine.withLock { machine in
            machine.syncedNames = machine.names
            machine.changes = []
            machine.tidy()
        }
    }

    /// - Returns: a handle; nil: another process holds the lock.
    func lock(_ name: String, isExclusive: Bool, by process: Int) -> Int? {
        machine.withLock { machine in
            let others = machine.locks[name] ?? []
            guard others.isEmpty || !isExclusive && !others.contains(where: \.isExclusive) else { return nil }
            if machine.names[name] == nil {
                let inode = machine.number()
                machine.inodes[inode] = Inode()
                machine.make(.link(name, inode))
            }
            let handle = machine.number()
            machine.locks[name, default: []].append(Lock(process: process, handle: handle, isExclusive: isExclusive))
            return handle
        }
    }

    func unlock(_ name: String, _ handle: Int) {
        machine.withLock { $0.locks[name]?.removeAll { $0.handle == handle } }
    }
}
