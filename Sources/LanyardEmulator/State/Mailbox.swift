/// The pairs of tokens that confirm an email or reset a password, as mails or as a function has got them.
struct Mailbox: Codable, Sendable {
    /// Pairs that are kept. Older ones are unknown.
    static let pairsMax = 10_000

    private(set) var mails: [Mail] = []
    private var count = 0

    /// Makes a pair.
    ///
    /// - Parameter text: page and subject of the mail; nil: a function gets the pair.
    mutating func issue(
        _ kind: Mail.Kind, to email: String, appID: String, _ text: EmailPasswordSettings.MailText?, at now: Double,
        seconds: Double
    ) -> Mail {
        count += 1
        let token = Identifiers.hex(Identifiers.random(64)), tokenID = Identifiers.new()
        let url = text.map { text in
            text.url + (text.url.contains("?") ? "&" : "?") + "token=\(token)&tokenId=\(tokenID)"
        }
        let mail = Mail(
            number: count, appID: appID, email: email, kind: kind, subject: text?.subject, url: url, token: token,
            tokenID: tokenID, sentAt: now, expiresAt: now + seconds)
        mails.append(mail)
        // Removed in large steps, because each removal moves the rest.
        if mails.count > 2 * Self.pairsMax { mails.removeFirst(mails.count - Self.pairsMax) }
        return mail
    }

    /// The place of a pair that may still be used.
    func usable(_ token: String, _ tokenID: String, _ kind: Mail.Kind, appID: String, at now: Double) -> Int? {
        mails.lastIndex { mail in
            mail.token == token && mail.tokenID == tokenID && mail.kind == kind && mail.appID == appID && !mail.isUsed
                && now < mail.expiresAt
        }
    }

    mutating func use(_ index: Int) { mails[index].isUsed = true }

    /// Empties the list. The pairs stay valid.
    mutating func hideAll() { for index in mails.indices { mails[index].isHidden = true } }
}

/// One pair of tokens and the mail that brings it.
struct Mail: Codable, Sendable {
    enum Kind: String, Codable, Sendable { case confirmation, reset }

    let number: Int
    let appID: String
    /// As registered.
    let email: String
    let kind: Kind
    /// nil, like the URL: a function has got the pair, and there is no mail.
    let subject: String?
    let url: String?
    /// 128 hex digits.
    let token: String
    /// 24 hex digits.
    let tokenID: String
    let sentAt: Double
    let expiresAt: Double
    var isUsed = false
    var isHidden = false

    /// Whether two texts could be a pair of tokens at all.
    static func isPair(_ token: String, _ tokenID: String) -> Bool {
        token.utf8.count == 128 && token.allSatisfy(\.isHexDigit) && Identifiers.isID(tokenID)
    }

    var json: JSONValue {
        .members([
            "number": .int(number), "app": .string(appID), "email": .string(email), "kind": .string(kind.rawValue),
            "sent_by": url == nil ? "function" : "email", "subject": .orNull(subject), "url": .orNull(url),
            "token": .string(token), "token_id": .string(tokenID), "sent_at": .double(sentAt),
            "expires_at": .double(expiresAt), "is_used": .boolean(isUsed),
        ])
    }
}
