from pkg import words

application = words.GREETING
