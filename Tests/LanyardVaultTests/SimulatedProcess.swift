import Glibc
import LanyardFoundations
import LanyardVault

/// The file calls of one process on a `SimulatedDisk`. After its death every call fails and its locks are free.
final class SimulatedProcess: StoreDisk {
    let owner: UInt32 = 1000
    private let disk: SimulatedDisk
    private let number: Int
    private let outcome: @Sendable (SimulatedDisk.Step, String, Int) -> SimulatedDisk.Outcome
    private let count = Guarded(0)

    init(
        on disk: SimulatedDisk, number: Int,
        outcome: @escaping @Sendable (SimulatedDisk.Step, String, Int) -> SimulatedDisk.Outcome
    ) {
        self.disk = disk
        self.number = number
        self.outcome = outcome
    }

    /// Calls so far.
    var calls: Int { count.withLock { $0 } }
    var isDead: Bool { disk.isDead(number) }
    /// Ends the process as SIGKILL does. Its writes stay.
    func die() { disk.kill(number) }

    func inspectFolder() throws(DiskError) -> DiskEntry {
        try call(.inspectFolder, "") { () throws(DiskError) in DiskEntry(.folder, owner: owner, mode: 0o700) }
    }

    func read(
        _ name: String, bytesMax: Int, headByteCount: Int, from start: (DiskEntry, [UInt8]) -> Int
    ) throws(DiskError) -> DiskContent? {
        try call(.read, name) { () throws(DiskError) in
            disk.bytes(of: name).map { bytes in
                let entry = DiskEntry(.file, owner: owner, mode: 0o600, size: bytes.count)
                guard bytes.count <= bytesMax else { return DiskContent(entry, bytes: nil) }
                let offset = start(entry, Array(bytes.prefix(headByteCount)))
                return DiskContent(entry, bytes: Array(bytes.dropFirst(offset)), offset: offset)
            }
        }
    }

    func extend(_ name: String, from offset: Int) throws(DiskError) -> any DiskWriter {
        let inode = try call(.extend, name) { () throws(DiskError) in try disk.extend(name, from: offset) }
        return Draft(of: self, name: name, inode: inode)
    }

    func cut(_ name: String, to byteCount: Int) throws(DiskError) {
        try call(.cut, name) { () throws(DiskError) in try disk.cut(name, to: byteCount) }
    }

    func syncFile(_ name: String) throws(DiskError) {
        try call(.syncFile, name) { () throws(DiskError) in try disk.syncFile(name) }
    }

    func create(_ name: String) throws(DiskError) -> any DiskWriter {
        let inode = try call(.create, name) { () throws(DiskError) in try disk.create(name) }
        return Draft(of: self, name: name, inode: inode)
    }

    func rename(_ name: String, to other: String) throws(DiskError) {
        try call(.rename, name) { () throws(DiskError) in try disk.rename(name, to: other) }
    }

    func syncFolder() throws(DiskError) {
        try call(.syncFolder, "") { () throws(DiskError) in disk.syncFolder() }
    }

    func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) {
        try call(.overwrite, name) { () throws(DiskError) in
            try disk.overwrite(name, at: offset, with: bytes)
        }
    }

    func remove(_ name: String) throws(DiskError) {
        try call(.remove, name) { () throws(DiskError) in disk.remove(name) }
    }

    func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)? {
        let handle = try call(.lock, name) { () throws(DiskError) in
            disk.lock(name, isExclusive: kind == .exclusive, by: number)
        }
        return handle.map { Lock(of: self, name: name, handle: $0) }
    }

    // MARK: Calls

    private func call<Value>(
        _ step: SimulatedDisk.Step, _ name: String, _ work: () throws(DiskError) -> Value
    ) throws(DiskError) -> Value {
        switch next(step, name) {
        case .done, .short: return try work()
        case .fails(let code): throw DiskError(code, step.rawValue)
        case .diesBefore:
            die()
            throw Self.dead
        case .diesAfter:
            _ = try work()
            die()
            throw Self.dead
        }
    }

    private static let dead = DiskError(EIO, "living on: the process has died")

    private func next(_ step: SimulatedDisk.Step, _ name: String) -> SimulatedDisk.Outcome {
        guard !isDead else { return .diesBefore }
        let number = count.withLock { count in
            defer { count += 1 }
            return count
        }
        return outcome(step, name, number)
    }

    private final class Draft: DiskWriter {
        private let process: SimulatedProcess
        private let name: String
        private let inode: Int

        init(of process: SimulatedProcess, name: String, inode: Int) {
            self.process = process
            self.name = name
            self.inode = inode
        }

        func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int {
            let outcome = process.next(.write, name)
            switch outcome {
            case .done: return try process.disk.write(bytes, max: .max, to: inode)
            case .short(let count): return try process.disk.write(bytes, max: max(1, count), to: inode)
            case .fails(let code): throw DiskError(code, "writing")
            case .diesBefore: break
            // A write is the only call that may have a part of its effect.
            case .diesAfter: _ = try process.disk.write(bytes, max: max(1, bytes.count / 2), to: inode)
            }
            process.die()
            throw SimulatedProcess.dead
        }

        func sync() throws(DiskError) {
            try process.call(.sync, name) { () throws(DiskError) in process.disk.sync(inode) }
        }
    }

    private final class Lock: DiskLock {
        private let process: SimulatedProcess
        private let name: String
        private let handle: Int

        init(of process: SimulatedProcess, name: String, handle: Int) {
            self.process = process
            self.name = name
            self.handle = handle
        }

        func release() {
            // Releasing a lock cannot fail, but the process can die before or after it.
            try? process.call(.unlock, name) { () throws(DiskError) in process.disk.unlock(name, handle) }
        }

        deinit { process.disk.unlock(name, handle) }
    }
}
