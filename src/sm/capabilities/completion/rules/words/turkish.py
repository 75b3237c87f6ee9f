"""Turkish."""

from sm.capabilities.completion.rules.words.vocabulary import Words

TURKISH = Words(
    negates_behind=True,
    done=r"""
        ^(?:her şey |hepsi |işlem |iş |görev )*(?:tamam|tamamdır|tamamlandı|bitti|hazır|bitirdim|tamamladım|
            oldu)(?= *[^\w ]| *$); (?:görev|iş|işlem|her şey|hepsi) (?:başarıyla )?(?:tamamlandı|bitti|hazır);
        (?:tamamen|başarıyla) tamamlandı
    """,
    work=r"""
        \w{2,}(?:ıldı|ildi|uldu|üldü|landı|lendi|ndı|ndi|aştırıldı|dirildi)(?= *[^\w ]| *$| ve);
        \w{2,}(?:dım|dim|dum|düm|tım|tim|tum|tüm)(?= *[^\w ]| *$| ve); (?:indi|düştü)(?= *[^\w ]| *$); (?:ekledim|düzelttim|güncelledim|kaldırdım|sildim|yazdım|oluşturdum|değiştirdim|çözdüm|yaptım|
            birleştirdim|taşıdım); (?:test\w*|hepsi|tümü) (?:[^.;]{0,30} )?(?:geçiyor|geçti|başarılı);
        (?:artık|şimdi) (?:çalışıyor|geçiyor)
    """,
    unless=r"""
        değil; neredeyse; kısmen; henüz; eğer; önce; ancak; gerekir; gerek; olmalı; olabilir; kadar; sonra; ilk
    """,
    unfinished=r"""
        (?:şimdi|sonra|ardından|sırada|bundan sonra) (?:\w+ ){0,4}(?:geçiyorum|geçeceğim|başlıyorum|
            başlayacağım|devam|yapacağım|var|yazacağım); devam (?:ediyorum|edeceğim|ediyor);
        (?:kaldı|kalan|kalıyor)(?= *[^\w ]| *$| \w); (?:hâlâ|hala|henüz) eksik; eksik(?= *[^\w ]| *$);
        \w+(?:eceğim|acağım|eceğiz|acağız); henüz (?:\w+ )?(?:değil|bitmedi|tamamlanmadı|başlamadım|yapılmadı);
        şu ana kadar; yarın; yarısı; sıradaki; neredeyse (?:bitti|hazır|tamam)
    """,
    partial=r"""
        adım \d+ ?/ ?\d+; \d+ (?:\w+ )?\d+'?(?:i|si|ı|sı|ü|u) tamam\w*; ilk (?:bölüm|kısım|adım|yarı|aşama)\w*
    """,
    waiting="bekliyorum(?! (?:cevab|yanıt|onay)); bekleyeceğim; arka planda; hâlâ çalışıyor; hala çalışıyor",
    failed=r"""
        \w*(?:emedim|amadım|emedik|amadık)(?= *[^\w ]| *$); başarısız oldu\w*; mümkün olmadı; maalesef;
        vazgeçiyorum
    """,
    failing=r"""
        (?:hâlâ|hala|halen) (?:başarısız|hata|bozuk|geçmiyor|kırmızı); başarısız(?= *[^\w ]| *$); geçmiyor;
        hata veriyor
    """,
    blocked=r"""
        devam edemiyorum; devam edemem; ilerleyemiyorum; engellendi\w*(?= *[^\w ]| *$);
        (?:yetkim|iznim|erişimim|şifrem|izin|yetki|erişim) (?:yok|gerekli|gerekiyor)
    """,
    ask=r"""
        (?:lütfen )?(?:onaylayın|onaylar mısın\w*|seçin|seç|belirtin|bildirin|söyleyin|söyle|
            karar verin)(?= *[^\w ]| *$);
        (?:onayınıza|onayına|kararınıza|cevabınıza|onayınızı|yanıtınızı) (?:ihtiyacım|bekliyorum|
            ihtiyaç)(?: \w+)?; ister misin\w*;
        (?:hangi|hangisini|nasıl) .{0,80}(?:istersin|tercih|mısın|misin|ister)\w*
    """,
    offer="isterseniz; istersen; dilerseniz; ihtiyaç (?:olursa|duyarsanız); gerekirse",
    inquiry=r"""
        açıkla\w*; neden; niçin; nasıl; ne; hangi\w*; nerede; kim; kaç; analiz et\w*; karşılaştır\w*; özetle\w*;
        planla\w*; incele\w*; bul; araştır\w*; kontrol et\w*; listele\w*; değerlendir\w*
    """,
)
