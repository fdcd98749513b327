import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardVault

/// The store as the sessions see it: one thing after another, each in its own time.
extension FleetWorld {
    func enqueue(_ process: FleetProcess, _ user: Int, _ kind: FleetProcess.Task.Kind) {
        process.tasks.append(FleetProcess.Task(user: user, kind: kind))
        let isSlow = random.hits(0.005) && clocks.now >= holidayUntil
        // All users of a process wait for its one queue of writes.
        if isSlow { for place in process.sessions.indices { process.sessions[place].troubledAt = clocks.now } }
        planTurn(process, after: isSlow ? .seconds(3) : .milliseconds(2) * random.chance())
    }

    private func planTurn(_ process: FleetProcess, after delay: Duration) {
        guard !process.isTurnPlanned else { return }
        process.isTurnPlanned = true
        heap.plan(.storeTurn(process: process.number, life: process.life), at: clocks.now + delay)
    }

    func storeTurn(_ process: FleetProcess) {
        process.isTurnPlanned = false
        doFirstTask(process)
    }

    /// Within a call of one process the other may do what it has to do: that is when locks matter.
    func interleave(with number: Int) {
        guard processes.count > 1, !isInterleaving, random.next() & 31 == 0 else { return }
        guard let other = processes[1 - number], !other.tasks.isEmpty, clocks.now >= asleepUntil else { return }
        isInterleaving = true
        doFirstTask(other)
        isInterleaving = false
    }

    private func doFirstTask(_ process: FleetProcess) {
        guard let task = process.tasks.first else { return }
        let outcome = carryOut(task, process)
        if let died = process.gate.died {
            return kill(process, at: died)
        }
        guard let outcome else {
            // The store's lock is busy: its own timeout is 10 s.
            count(.storeBusy)
            process.tasks[0].triedSince = task.triedSince ?? clocks.now
            return planTurn(process, after: random.between(.milliseconds(20), .milliseconds(200)))
        }
        process.tasks.removeFirst()
        if !process.tasks.isEmpty { planTurn(process, after: .milliseconds(2) * random.chance()) }
        if let event = outcome.event { deliver(process, task.user, event) }
        if case .look = task.kind { looked(outcome.contents, process) }
    }

    private struct Outcome {
        var event: SessionCoordinator.Event?
        var contents: StoreContents?
    }

    /// nil: to be tried again.
    private func carryOut(_ task: FleetProcess.Task, _ process: FleetProcess) -> Outcome? {
        let session = process.sessions[task.user]
        switch task.kind {
        case .lock: return Outcome(event: .locked(lock(process, task.user)))
        case .unlock:
            process.gate.work = .unlockUser
            process.locks[task.user]?.release()
            process.locks[task.user] = nil
            session.isLockless = false
            return Outcome()
        case .read(let operation):
            return Outcome(event: .read(read(process, task.user), operation: operation))
        case .begin(let intended, let operation): return begin(intended, operation, task, process)
        case .look:
            process.gate.work = .read
            return Outcome(contents: try? process.file.read())
        case .background(let change):
            process.gate.work = .other
            _ = try? process.file.commit([change], now: clocks.wall)
            return Outcome()
        case .commit(let intended):
            guard let result = commit(intended, task, process) else { return nil }
            return process.gate.died == nil ? Outcome(event: .committed(result)) : Outcome()
        }
    }

    private func read(_ process: FleetProcess, _ user: Int) -> Result<StoredUser?, StoreError> {
        let session = process.sessions[user]
        if plan.bug == .noReadAfterLock { return .success(session.known) }
        process.gate.work = .read
        do throws(StoreError) {
            let stored = try process.file.read()[members[user].name]
            session.known = stored
            return .success(stored)
        } catch {
            // What another process has made of the token cannot be known.
            excuse(user)
            return .failure(error)
        }
    }

    /// nil: to be tried again.
    private func commit(
        _ intended: StoreChange, _ task: FleetProcess.Task, _ process: FleetProcess
    ) -> Result<StoreChange.Verdict, StoreError>? {
        let change = planted(intended)
        recordCredential(change, process, task.user, isStored: false)
        process.gate.work = CrashPoint.Work(change)
        if let planted = plantedCommit(change, process, task.user) { return planted }
        let (held, writes) = (storedContents()?[members[task.user].name], report.writes)
        do throws(StoreError) {
            let verdict = try process.file.commit([change], now: clocks.wall)[0]
            // Another process may have written before the lock was had.
            if case .logOut = change, report.writes == writes { checkEnded(held, verdict, task.user) }
            // It may have died at the very end, when the lock goes back.
            if process.gate.died == nil { stored(change, verdict, process, task.user) }
            return .success(verdict)
        } catch {
            if error.kind == .busy, clocks.now - (task.triedSince ?? clocks.now) < .seconds(10) { return nil }
            if process.gate.died == nil { diskTroubleAt = clocks.now }
            if case .saveSession = change { process.sessions[task.user].failedSave = true }
            // Its call is still made: no other process can know of it.
            if case .storeIntent = change { excuse(task.user) }
            return .failure(error)
        }
    }

    /// nil: the commit is to be tried again.
    private func begin(
        _ intended: StoreChange, _ operation: UInt64, _ task: FleetProcess.Task, _ process: FleetProcess
    ) -> Outcome? {
        let session = process.sessions[task.user]
        var lockError = session.isLockless ? "no lock" : nil
        // It is held while the commit waits for the store's lock.
        if task.triedSince == nil {
            switch lock(process, task.user) {
            case .busy: return Outcome(event: process.gate.died == nil ? .begun(.busy, operation: operation) : nil)
            case .taken: lockError = nil
            case .failed(let message): lockError = message
            }
            guard process.gate.died == nil else { return Outcome() }
        }
        let read = read(process, task.user)
        guard process.gate.died == nil else { return Outcome() }
        guard let verdict = commit(intended, task, process) else { return nil }
        guard process.gate.died == nil else { return Outcome() }
        return Outcome(
            event: .begun(.attempted(StoreBeginning.Attempt(read, verdict), lockError: lockError), operation: operation)
        )
    }

    private func lock(_ process: FleetProcess, _ user: Int) -> StoreLock {
        process.gate.work = .lockUser
        process.sessions[user].isLockBusy = false
        do throws(DiskError) {
            guard let lock = try process.gate.lock(storePath.lock(of: members[user].name), .exclusive) else {
                count(.userBusy)
                process.sessions[user].isLockBusy = true
                return .busy
            }
            process.locks[user] = lock
            return .taken
        } catch {
            if process.gate.died == nil {
                count(.lockFailed)
                lockTroubleAt = clocks.now
                process.sessions[user].isLockless = true
                // From here on two processes may use one token, until one of them has stored the next.
                excuse(user)
            }
            return .failed("no lock")
        }
    }

    /// A change that the file holds, as a process has learned of it.
    private func stored(
        _ change: StoreChange, _ verdict: StoreChange.Verdict, _ process: FleetProcess, _ user: Int
    ) {
        report.writes += 1
        if case .storeIntent = change {} else { process.sessions[user].unsettled = 0 }
        switch verdict {
        case .stored(let stored), .storedEnding(let stored, _):
            process.sessions[user].known = stored
            process.copy.replace(stored)
            checkStored(change, stored, user)
            recordCredential(change, process, user, isStored: true)
            if case .recordRefusal = change { remember(refusalOf: stored, user, process.sessions[user]) }
            toldStore(stored, user, by: process)
            plantedStored(change, process, user)
        case .overtaken(let other):
            process.sessions[user].known = other
            process.copy.replace(other)
        // Each user has an account of its own.
        case .inUse(let other): accuse(.rightUser, "the account of user \(user) is said to be that of \(other)")
        }
    }
}

extension StoreContents {
    fileprivate mutating func replace(_ user: StoredUser?) {
        guard let user, let place = users.firstIndex(where: { $0.name == user.name }) else {
            if let user { users.append(user) }
            return
        }
        users[place] = user
    }
}
