import Logging

/// Performs what the directory of users decides: between people who ask, the users' cells, the store, and what everybody sees. Belongs to
/// the home's queue.
final class UserRegistrar: @unchecked Sendable {
    typealias Ask = UserDirectory.Ask
    typealias Reply = @Sendable (Result<UserOutcome, UserFault>) -> Void

    /// Who asked for something, until it is answered.
    private struct Asker {
        let request: UserRequest
        let reply: Reply
        /// A session that a login has brought for somebody else of this identity, until that user has it.
        var gift: (session: SessionGift, identity: StoredIdentity)?
    }

    unowned let home: SessionHome
    var directory: UserDirectory
    private var askers: [Ask: Asker] = [:]
    private var asks: UInt64 = 0
    /// Choices of the active user that are on their way into the store; answers wait for them.
    private var openChoices = 0
    private var heldAnswers: [(Ask, UserDirectory.Answer)] = []
    /// Answers that wait until a newcomer's name may be given anew.
    private var farewells: [UserIndex: [(Ask, UserDirectory.Answer)]] = [:]
    /// What the store could not take.
    private var unsavedChoice: StoreContents.ActiveChoice?
    private var choiceFailures = 0
    private lazy var alarm = SessionAlarm(on: home.loop) { [unowned self] in saveAgain() }

    init(_ directory: UserDirectory, of home: SessionHome) {
        self.directory = directory
        self.home = home
    }

    func perform(_ request: UserRequest, _ reply: @escaping Reply) {
        asks += 1
        let ask = Ask(asks)
        askers[ask] = Asker(request: request, reply: reply)
        carryOut(directory.take(.asked(request, ask)))
    }

    /// Nobody waits for an answer, and no choice is on its way into the store.
    var isSettled: Bool { askers.isEmpty && openChoices == 0 }

    /// The process is about to end: what the store lacks is tried once more.
    func settle() { saveAgain() }

    /// Whoever waits hears that nothing is known.
    func stop() {
        alarm.drop()
        if let unsavedChoice {
            home.logger.error(
                "the process ends, and the store does not hold who is active",
                metadata: [
                    "event": "store.active.unsaved", "reason": "store_failing",
                    "active_user": .string(unsavedChoice.user ?? "none"),
                ])
        }
        for (ask, answer) in heldAnswers + farewells.values.joined() { deliver(ask, answer) }
        for ask in askers.keys { deliver(ask, .failure(.outcomeUnknown)) }
    }

    /// Whether an account may be this user's.
    func claim(_ account: String, for user: UserIndex) -> SessionClaim { directory.claim(account, for: user) }

    /// A cell has changed.
    func hear(of cell: SessionCell) {
        let standing = UserDirectory.Standing(
            state: cell.desk.session.state, isLoggingIn: cell.desk.isLoggingIn, accountID: cell.desk.ledger.accountID,
            provider: cell.desk.provider)
        carryOut(directory.take(.changed(cell.index, standing)))
        dismiss(cell)
    }

    /// Takes away the cell of a user who is known no more, unless something of it is still under way.
    private func dismiss(_ cell: SessionCell) {
        guard directory.isLeaving(cell.index), cell.desk.isIdle else { return }
        home.drop(cell)
        carryOut(directory.take(.gone(cell.index)))
        for (ask, answer) in farewells.removeValue(forKey: cell.index) ?? [] { later { self.deliver(ask, answer) } }
    }

    // MARK: Acts

    func carryOut(_ acts: [UserDirectory.Act]) {
        var dropped: UserIndex?
        for act in acts {
            switch act {
            case .admit(let user): admit(user)
            case .logIn(let ask, let user): logIn(ask, user)
            case .give(let ask, let user): give(ask, user)
            case .activate(let choice, let user): activate(choice, user)
            case .refresh(let ask, let user):
                cell(of: user, for: ask)?.refreshNow { [unowned self] in hear(refresh: $0, of: ask, user) }
            case .logOut(let ask, let user), .hide(let ask, let user):
                cell(of: user, for: ask)?.logOut { [unowned self] in hear(leaving: $0, of: ask, user) }
            case .forget(let ask, let user): forget(ask, user)
            case .expel(let ask, let name): expel(ask, name)
            case .drop(let user):
                dropped = user
                if let cell = home.cell(at: user) { dismiss(cell) }
            case .answer(let ask, let answer): self.answer(ask, answer, after: dropped)
            }
        }
        show()
    }

    /// - Parameter leaving: whoever is answered must find this one's name free.
    private func answer(_ ask: Ask, _ answer: UserDirectory.Answer, after leaving: UserIndex?) {
        if let leaving, directory.isLeaving(leaving), home.cell(at: leaving) != nil {
            farewells[leaving, default: []].append((ask, answer))
        } else if openChoices > 0 {
            heldAnswers.append((ask, answer))
        } else {
            later { self.deliver(ask, answer) }
        }
    }

    private func show() { home.show(directory.shown, isFailing: unsavedChoice != nil) }

    /// The cell of a user that the directory knows. Without one, which would be a fault of ours, whoever asked is not left waiting.
    private func cell(of user: UserIndex, for ask: Ask?) -> SessionCell? {
        if let cell = home.cell(at: user) { return cell }
        if let ask { later { self.deliver(ask, .fault(.noSuchUser)) } }
        return nil
    }

    /// A cell that waits for its first login.
    private func admit(_ user: KnownUser) {
        guard let member = home.member(for: user) else { return }
        home.put(SessionCell(member, index: user.index, home: home))
    }

    private func logIn(_ ask: Ask, _ user: UserIndex) {
        guard let cell = home.cell(at: user), let credential = credential(for: ask, cell) else {
            return carryOut(directory.take(.failed(ask, .noCredential)))
        }
        let identity = cell.member.home
        cell.login(credential) { [unowned self] in hear(login: $0, of: ask, at: identity) }
    }

    private func credential(for ask: Ask, _ cell: SessionCell) -> Credential? {
        switch askers[ask]?.request {
        case .add(_, _, let given)?, .login(_, let given?)?: .given(given)
        default: cell.member.settings.login.map { .configured($0) }
        }
    }

    private func give(_ ask: Ask, _ user: UserIndex) {
        guard let (gift, identity) = askers[ask]?.gift, let cell = home.cell(at: user) else {
            return carryOut(directory.take(.overtaken(ask)))
        }
        askers[ask]?.gift = nil
        cell.give(gift) { [unowned self] in hear(login: $0, of: ask, at: identity) }
    }

    private func forget(_ ask: Ask?, _ user: UserIndex) {
        guard let cell = cell(of: user, for: ask) else { return }
        if case .feed = cell.member.source {
            home.drop(cell)
            carryOut(directory.take(.gone(user)))
            if let ask { deliver(ask, .success(.removed(isStored: true))) }
            return
        }
        cell.remove { [unowned self] in
            if let ask { hear(leaving: $0, of: ask, user) }
        }
    }

    // MARK: What cells answer

    private func hear(login reply: SessionReply, of ask: Ask, at identity: StoredIdentity) {
        switch reply {
        case .loggedIn: carryOut(directory.take(.loggedIn(ask)))
        case .belongs(let name, let gift):
            askers[ask]?.gift = (gift, identity)
            carryOut(directory.take(.belongs(ask, to: name)))
        case .failed(let fault): carryOut(directory.take(.failed(ask, .identity(fault))))
        case .accountInUse(let name): carryOut(directory.take(.failed(ask, .accountInUse(by: name))))
        case .nameInUse(true): carryOut(directory.take(.taken(ask)))
        case .nameInUse(false): carryOut(directory.take(.failed(ask, .nameInUse)))
        case .loginInProgress: carryOut(directory.take(.failed(ask, .loginInProgress)))
        case .notSupported: carryOut(directory.take(.failed(ask, .notSupported)))
        case .stopping: carryOut(directory.take(.failed(ask, .stopping)))
        case .overtaken, .notLoggedIn, .loginRequired, .refreshed, .left: carryOut(directory.take(.overtaken(ask)))
        }
    }

    private func hear(refresh reply: SessionReply, of ask: Ask, _ user: UserIndex) {
        later { [self] in
            switch reply {
            case .refreshed: deliver(ask, .success(.refreshed(home.cell(at: user)?.status.accessTokenExpiry)))
            case .failed(let fault): deliver(ask, .failure(.identity(fault)))
            case .loginRequired: deliver(ask, .failure(.loginRequired))
            case .notSupported: deliver(ask, .failure(.notSupported))
            case .stopping: deliver(ask, .failure(.stopping))
            default: deliver(ask, .failure(.notLoggedIn))
            }
        }
    }

    private func hear(leaving reply: SessionReply, of ask: Ask, _ user: UserIndex) {
        let (isRevoked, isStored) =
            if case .left(let isRevoked, let isStored) = reply { (isRevoked, isStored) } else { (true, true) }
        later { [self] in
            if case .remove? = askers[ask]?.request { return deliver(ask, .success(.removed(isStored: isStored))) }
            deliver(ask, .success(.loggedOut(home.view(of: user), isRevoked: isRevoked, isStored: isStored)))
        }
    }

    // MARK: Answers

    /// Behind the event at hand: whoever has an answer finds everywhere what it tells of.
    func later(_ work: @escaping @Sendable () -> Void) { home.loop.post(work) }

    private func deliver(_ ask: Ask, _ answer: UserDirectory.Answer) {
        switch answer {
        case .added(let user):
            let view = home.view(of: user)
            deliver(ask, view.map { .success(.added($0, isStored: isStored(user))) } ?? .failure(.noSuchUser))
        case .user(let user):
            let view = home.view(of: user)
            deliver(ask, view.map { .success(.user($0, isStored: isStored(user))) } ?? .failure(.noSuchUser))
        case .loggedOutBefore(let user):
            let view = home.view(of: user)
            let cell = home.cell(at: user)
            let isRevoked = cell.map { !home.revocations.owes($0) } ?? true
            let isStored = cell?.desk.isUnsaved != true
            deliver(ask, .success(.loggedOut(view, isRevoked: isRevoked, isStored: isStored)))
        case .fault(let fault): deliver(ask, .failure(fault))
        }
    }

    /// Whether a restart will find the user as it is now: with this session, and active.
    private func isStored(_ user: UserIndex) -> Bool {
        unsavedChoice == nil && home.cell(at: user)?.desk.isStored != false
    }

    func deliver(_ ask: Ask, _ result: Result<UserOutcome, UserFault>) {
        guard let asker = askers.removeValue(forKey: ask) else { return }
        // Nobody was there any more to take it.
        if let (gift, identity) = asker.gift, let token = gift.grant.refreshToken {
            home.revocations.tell(
                StoredRevocation(identity: identity.name, refresh: token, since: .now, mark: identity.mark),
                home.logger)
        }
        asker.reply(result)
        home.tellSettled()
    }

    // MARK: The active user

    /// At once for requests; whoever asked hears of it when it outlives a crash.
    private func activate(_ choice: StoreContents.ActiveChoice, _ user: UserIndex?) {
        home.activate(user)
        save(choice)
    }

    private func save(_ choice: StoreContents.ActiveChoice) {
        openChoices += 1
        home.commit(.activate(choice)) { [weak self] result in
            self?.home.loop.post { [weak self] in self?.saved(choice, result) }
        }
    }

    private func saved(_ choice: StoreContents.ActiveChoice, _ result: Result<StoreChange.Verdict, StoreFault>) {
        guard !home.isStopped else { return }
        openChoices -= 1
        switch result {
        case .success:
            (unsavedChoice, choiceFailures) = (nil, 0)
            alarm.set(at: .never)
        case .failure(let fault):
            unsavedChoice = choice
            choiceFailures += 1
            let pause = Duration.seconds(min(30, 1 << min(choiceFailures - 1, 5)))
            alarm.set(at: .now + pause)
            home.logger.error(
                "the store does not hold who is active; it is tried again",
                metadata: ["event": "store.active.failed", "reason": "store_failing", "error": .string(fault.words)])
        }
        guard openChoices == 0 else { return }
        let answers = heldAnswers
        heldAnswers = []
        show()
        for (ask, answer) in answers { later { self.deliver(ask, answer) } }
        home.tellSettled()
    }

    private func saveAgain() {
        if let unsavedChoice, openChoices == 0 { save(unsavedChoice) }
    }
}
