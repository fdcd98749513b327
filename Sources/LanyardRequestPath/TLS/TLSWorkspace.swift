import COpenSSL
import Glibc

/// Memory that all TLS sessions of one shard use in turn. Belongs to the shard's queue, which the shard and the owners of the
/// sessions check.
///
/// OpenSSL keeps two buffers of 17 KiB for each connection that has read and written. Freeing them after each request costs more than the
/// request's encryption, because what is freed is wiped. So the sessions that were used last keep theirs, and the others have none.
package final class TLSWorkspace {
    /// What the workspace knows of the buffers of one session.
    struct SessionBuffers {
        /// Links of the list of sessions with buffers.
        fileprivate unowned(unsafe) var newer: TLSSession?
        fileprivate unowned(unsafe) var older: TLSSession?
        fileprivate var isListed = false
        fileprivate(set) var partialRecord = PartialRecord.none
    }

    /// A part of a record that a session's buffers hold although they should be freed.
    enum PartialRecord {
        case none
        /// The budget has counted the buffers.
        case counted
        /// There were too many.
        case uncounted
    }

    /// Bytes of plaintext that one record holds (RFC 8446 5.1).
    static let recordBytesMax = 16 << 10

    private var record: UnsafeMutableRawBufferPointer?
    /// Ciphertext of the call that is being made. Empty between calls.
    let output = UnsafeMutablePointer<lanyard_tls_bytes>.allocate(capacity: 1)

    /// OpenSSL's two buffers of one session.
    static let bufferBytes = 34 << 10

    private let buffersMax: Int
    private let budget: BufferBudget?
    private var buffers = 0
    private var sessions = SessionPeak()
    private unowned(unsafe) var newest: TLSSession?
    private unowned(unsafe) var oldest: TLSSession?

    /// - Parameters:
    ///   - buffersMax: sessions that keep their buffers, 34 KiB each. With 64, a shard whose 64 clients had a TLS upstream
    ///     freed and wiped two of them for each request.
    ///   - budget: counts the buffers beyond those, which sessions cannot give up: they hold the beginning of a record.
    package init(buffersMax: Int = 160, budget: BufferBudget? = nil) {
        precondition(buffersMax > 0)
        self.buffersMax = buffersMax
        self.budget = budget
        output.initialize(to: lanyard_tls_bytes())
    }

    deinit {
        lanyard_tls_release(output)
        output.deallocate()
        guard let record else { return }
        // It has held requests with their tokens.
        explicit_bzero(record.baseAddress!, record.count)
        record.deallocate()
    }

    /// One record's plaintext, put together from several runs. Allocated when it is first needed: a shard may have no TLS.
    var plaintext: UnsafeMutableRawBufferPointer {
        if let record { return record }
        let new = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.recordBytesMax, alignment: 16)
        record = new
        return new
    }

    /// Sessions that have buffers.
    package var bufferCount: Int { buffers }

    // MARK: Sessions with buffers

    /// A session is about to use its buffers. The session that was used least recently may lose its own.
    @inline(__always)
    func noteUse(of session: TLSSession) {
        if newest !== session { moveToFront(session) }
    }

    private func moveToFront(_ session: TLSSession) {
        remove(session)
        uncount(session)
        session.buffers.older = newest
        newest?.buffers.newer = session
        newest = session
        if oldest == nil { oldest = session }
        session.buffers.isListed = true
        buffers += 1
        if buffers > buffersMax, let oldest { release(oldest) }
    }

    /// Frees the buffers of all sessions.
    package func releaseAll() {
        while let oldest { release(oldest) }
    }

    private func release(_ session: TLSSession) {
        remove(session)
        guard !session.freeBuffers(), let budget else { return }
        session.buffers.partialRecord = budget.addPartialRecord(Self.bufferBytes) ? .counted : .uncounted
    }

    private func uncount(_ session: TLSSession) {
        let former = session.buffers.partialRecord
        guard former != .none else { return }
        session.buffers.partialRecord = .none
        if former == .counted { budget?.releasePartialRecord(Self.bufferBytes) }
    }

    // MARK: The number of sessions

    /// A session begins.
    func add() { sessions.begin() }

    /// The session ends. When half of them have ended the allocator has memory to give back, which their buffers took for a while.
    func end(_ session: TLSSession) {
        remove(session)
        uncount(session)
        if sessions.end() { budget?.noteUncountedFreed() }
    }

    /// The session is not one of those that keep their buffers any more.
    private func remove(_ session: TLSSession) {
        let links = session.buffers
        guard links.isListed else { return }
        if let newer = links.newer { newer.buffers.older = links.older } else { newest = links.older }
        if let older = links.older { older.buffers.newer = links.newer } else { oldest = links.newer }
        (session.buffers.newer, session.buffers.older, session.buffers.isListed) = (nil, nil, false)
        buffers -= 1
    }
}
