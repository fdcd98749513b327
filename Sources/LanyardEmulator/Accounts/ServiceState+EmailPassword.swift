/// `…/auth/providers/local-userpass/…`: registration, confirmation and reset. Without a session, and a bearer token is not looked at.
extension ServiceState {
    private enum FunctionStatus: String { case success, pending, fail }

    /// `register`. It makes an account, which is no user yet.
    func register(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        let settings = try emailPassword(app)
        let (email, password) = try newCredential(body, app)
        switch settings.confirmation {
        case .automatic: add(email, password, isConfirmed: true, app)
        case .email:
            add(email, password, isConfirmed: false, app)
            issue(.confirmation, to: email, settings.confirmationMail, app)
        case .function(let function):
            let status = confirmationStatus(function, email, app)
            guard status != .fail else { throw .confirmationRefused(email) }
            add(email, password, isConfirmed: status == .success, app)
        }
    }

    /// Makes an account without asking for a confirmation.
    func addAccount(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        let (email, password) = try newCredential(body, app)
        add(email, password, isConfirmed: body["confirmed"]?.bool ?? true, app)
        if let data = body["custom_data"]?.object { updateEmailAccount(email, app) { $0.customData = data } }
    }

    private func newCredential(_ body: JSONValue, _ app: Int) throws(ServiceError) -> (email: String, password: String)
    {
        let email = try Self.text("email", body)
        let password = try Self.text("password", body)
        guard !email.isEmpty else { throw .emailInvalid }
        try Self.requireLength(password)
        guard emailAccount(email, app) == nil else { throw .nameInUse }
        return (email, password)
    }

    private func add(_ email: String, _ password: String, isConfirmed: Bool, _ app: Int) {
        apps[app].accounts.emails[comparable(email, app)] = EmailAccount(
            email: email, password: password, isConfirmed: isConfirmed)
    }

    /// `confirm`.
    func confirm(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        _ = try emailPassword(app)
        let pair = try pair(.confirmation, body, app)
        guard let account = emailAccount(pair.email, app) else { throw .pairInvalid }
        guard !account.isConfirmed else { throw .alreadyConfirmed }
        mailbox.use(pair.index)
        updateEmailAccount(pair.email, app) { $0.isConfirmed = true }
    }

    /// `confirm/send`.
    func sendConfirmation(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        let settings = try emailPassword(app)
        let account = try account(body, app)
        guard !account.isConfirmed else { throw .alreadyConfirmed }
        issue(.confirmation, to: account.email, settings.confirmationMail, app)
    }

    /// `confirm/call`.
    func callConfirmation(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        let settings = try emailPassword(app)
        let email = try Self.text("email", body)
        // The service says so for unknown emails, too.
        if settings.confirmation == .automatic {
            throw .confirmationNotRun(email, because: "automatic confirmation is enabled")
        }
        let account = try account(body, app)
        guard !account.isConfirmed else { throw .alreadyConfirmed }
        guard case .function(let function) = settings.confirmation else {
            throw .confirmationNotRun(email, because: "confirmation by email is enabled")
        }
        switch confirmationStatus(function, account.email, app) {
        case .success: updateEmailAccount(email, app) { $0.isConfirmed = true }
        case .pending: break
        case .fail: throw .confirmationRefused(email)
        }
    }

    /// `reset/send`.
    func sendReset(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        let settings = try emailPassword(app)
        let account = try account(body, app)
        guard settings.reset == .email else { throw .resetByFunction }
        issue(.reset, to: account.email, settings.resetMail, app)
    }

    /// `reset/call`. While the function says pending, the old password stays; `reset` with the function's pair sets a new one.
    func callReset(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        let settings = try emailPassword(app)
        let account = try account(body, app)
        let password = try Self.text("password", body)
        try Self.requireLength(password)
        guard case .function(let function) = settings.reset else { throw .resetByEmail }
        let mail = issue(.reset, to: account.email, nil, app)
        let request: JSONObject = [
            "token": .string(mail.token), "tokenId": .string(mail.tokenID), "username": .string(account.email),
            "password": .string(password), "currentPasswordValid": .boolean(password == account.password),
        ]
        switch status(of: function, [.object(request)] + (body["arguments"]?.array ?? []), app) {
        case .success:
            updateEmailAccount(account.email, app) { $0.password = password }
            if let pair = usable(mail) { mailbox.use(pair) }
        case .pending: break
        case .fail: throw .resetRefused(account.email)
        }
    }

    /// `reset`.
    func reset(_ app: Int, _ body: JSONValue) throws(ServiceError) {
        _ = try emailPassword(app)
        let pair = try pair(.reset, body, app)
        let password = try Self.text("password", body)
        try Self.requireLength(password)
        guard emailAccount(pair.email, app) != nil else { throw .pairInvalid }
        mailbox.use(pair.index)
        updateEmailAccount(pair.email, app) { $0.password = password }
    }

    // MARK: Parts of these calls

    private func emailPassword(_ app: Int) throws(ServiceError) -> EmailPasswordSettings {
        _ = try enabledProvider(Provider.emailPassword.rawValue, app)
        return apps[app].settings.providers.emailPassword
    }

    private static func text(_ name: String, _ body: JSONValue) throws(ServiceError) -> String {
        guard let text = body[name]?.string else { throw .missing(name) }
        return text
    }

    private static func requireLength(_ password: String) throws(ServiceError) {
        guard (6...128).contains(password.count) else { throw .passwordLength }
    }

    private func account(_ body: JSONValue, _ app: Int) throws(ServiceError) -> EmailAccount {
        guard let account = emailAccount(try Self.text("email", body), app) else { throw .userNotFound }
        return account
    }

    /// The pair of a body, if it may be used.
    private func pair(
        _ kind: Mail.Kind, _ body: JSONValue, _ app: Int
    ) throws(ServiceError) -> (index: Int, email: String) {
        let token = try Self.text("token", body), tokenID = try Self.text("tokenId", body)
        guard Mail.isPair(token, tokenID) else { throw .invalidTokenData }
        let appID = apps[app].settings.appID
        guard let index = mailbox.usable(token, tokenID, kind, appID: appID, at: now) else { throw .pairInvalid }
        return (index, mailbox.mails[index].email)
    }

    private func usable(_ mail: Mail) -> Int? {
        mailbox.usable(mail.token, mail.tokenID, mail.kind, appID: mail.appID, at: now)
    }

    @discardableResult
    private func issue(
        _ kind: Mail.Kind, to email: String, _ text: EmailPasswordSettings.MailText?, _ app: Int
    ) -> Mail {
        mailbox.issue(
            kind, to: email, appID: apps[app].settings.appID, text, at: now, seconds: options.mailTokenSeconds)
    }

    private func confirmationStatus(_ function: String, _ email: String, _ app: Int) -> FunctionStatus {
        let mail = issue(.confirmation, to: email, nil, app)
        let request: JSONObject = [
            "token": .string(mail.token), "tokenId": .string(mail.tokenID), "username": .string(email),
        ]
        let status = status(of: function, [.object(request)], app)
        if status != .pending, let pair = usable(mail) { mailbox.use(pair) }
        return status
    }

    /// A function that fails, or returns anything else, says fail.
    private func status(of function: String, _ arguments: [JSONValue], _ app: Int) -> FunctionStatus {
        guard let outcome = try? run(function, service: nil, arguments, caller: nil, app),
            case .value(let value) = outcome
        else { return .fail }
        return value["status"]?.string.flatMap(FunctionStatus.init(rawValue:)) ?? .fail
    }
}
